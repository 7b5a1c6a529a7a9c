package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// hostileTracer panics when a span starts.
type hostileTracer struct{ noop.Tracer }

func (hostileTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic("tracer")
}

type hostileProvider struct{ noop.TracerProvider }

func (hostileProvider) Tracer(string, ...trace.TracerOption) trace.Tracer { return hostileTracer{} }

// hostileProcessor panics when a span starts, or when it ends; of phases only, or of calls too.
type hostileProcessor struct{ atStart, ofPhases bool }

func (p hostileProcessor) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	if p.atStart && !p.spares(span) {
		panic("processor: start")
	}
}

func (p hostileProcessor) OnEnd(span sdktrace.ReadOnlySpan) {
	if !p.atStart && !p.spares(span) {
		panic("processor: end")
	}
}

func (p hostileProcessor) spares(span sdktrace.ReadOnlySpan) bool {
	return p.ofPhases && strings.HasPrefix(span.Name(), telemetry.SpanCallPrefix)
}
func (hostileProcessor) Shutdown(context.Context) error   { return nil }
func (hostileProcessor) ForceFlush(context.Context) error { return nil }

// hostileExporter panics in the goroutine that ends a span, since its processor is synchronous.
type hostileExporter struct{}

func (hostileExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { panic("exporter") }
func (hostileExporter) Shutdown(context.Context) error                             { return nil }

// hostileHandler panics in the method of that name.
type hostileHandler struct{ in string }

func (h hostileHandler) Enabled(context.Context, slog.Level) bool {
	if h.in == "Enabled" {
		panic("handler: enabled")
	}
	return true
}
func (hostileHandler) Handle(context.Context, slog.Record) error { panic("handler: handle") }
func (h hostileHandler) WithAttrs([]slog.Attr) slog.Handler      { return h }
func (h hostileHandler) WithGroup(string) slog.Handler           { return h }

func TestHostile_APanicInASignalLeavesTheActionAndItsRecordAlone(t *testing.T) {
	processor := func(p sdktrace.SpanProcessor) telemetry.Options {
		return telemetry.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))}
	}
	for name, options := range map[string]telemetry.Options{
		"tracer":          {TracerProvider: hostileProvider{}},
		"processor start": processor(hostileProcessor{atStart: true}),
		"processor end":   processor(hostileProcessor{}),
		"phase start":     processor(hostileProcessor{atStart: true, ofPhases: true}),
		"phase end":       processor(hostileProcessor{ofPhases: true}),
		"exporter":        {TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(hostileExporter{}))},
		"handler enabled": {Logger: slog.New(hostileHandler{in: "Enabled"})},
		"handler handle":  {Logger: slog.New(hostileHandler{})},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel, err := telemetry.New(options)
				if err != nil {
					t.Fatal(err)
				}
				g, err := guard.New(guard.NewMemoryStore(), guard.WithObserver(tel))
				if err != nil {
					t.Fatal(err)
				}
				op, err := guard.NewOperation[string](g, opName)
				if err != nil {
					t.Fatal(err)
				}
				runs := 0
				action := func(context.Context) (string, error) {
					runs++
					time.Sleep(25 * time.Second) // over renewals
					return "charged", nil
				}
				for range 2 { // it runs, and the record gives the second call its result
					if got, err := op.Do(t.Context(), "order-1", action); got != "charged" || err != nil {
						t.Errorf("got %q, %v", got, err)
					}
				}
				if runs != 1 {
					t.Errorf("the action ran %d times, want once", runs)
				}
			})
		})
	}
}

// breaksOn is a handler that breaks on a line, and keeps the messages of the others.
type breaksOn struct {
	slog.Handler
	line  string
	how   func()
	other *lockedBuffer
}

func (b breaksOn) Enabled(context.Context, slog.Level) bool { return true }
func (b breaksOn) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, b.line) {
		b.how()
	}
	_, err := b.other.Write([]byte(r.Message + "\n"))
	return err
}

func TestHostile_ALineOfARenewalThatBreaksTheHandlerStopsNoOtherLine(t *testing.T) {
	for name, how := range map[string]func(){"panic": func() { panic("handler") }, "exit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, handler := newBrokenStore(), breaksOn{line: "renewal failed", how: how, other: &lockedBuffer{}}
				op := operationOn(t, store, nil, telemetry.Options{Logger: slog.New(handler)})
				store.fail(errors.New("down"), guard.PhaseRenew)
				got, err := op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
					time.Sleep(2 * guard.DefaultLease)
					return "charged", nil
				})
				synctest.Wait()
				if lines := handler.other.String(); got != "charged" || err != nil || !strings.Contains(lines, "lease lost") {
					t.Errorf("got %q, %v, with the lines\n%s", got, err, lines)
				}
			})
		})
	}
}

// exits calls runtime.Goexit in the goroutine that writes a log line, or starts or ends a span.
type exits struct {
	slog.Handler
	line, start, end string
}

func (e exits) Handle(_ context.Context, r slog.Record) error {
	if e.line != "" && strings.HasPrefix(r.Message, "onceguard: "+e.line) {
		runtime.Goexit()
	}
	return nil
}
func (exits) Enabled(context.Context, slog.Level) bool { return true }

func (e exits) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	if span.Name() == e.start {
		runtime.Goexit()
	}
}

func (e exits) OnEnd(span sdktrace.ReadOnlySpan) {
	if span.Name() == e.end {
		runtime.Goexit()
	}
}
func (exits) Shutdown(context.Context) error   { return nil }
func (exits) ForceFlush(context.Context) error { return nil }

// TestHostile_AGoexitInASignalKeepsTheKeyNoLongerThanItsLease: it ends the goroutine of the caller,
// which nobody can contain. Nothing goes on renewing, and what the action has made before that is
// stored.
func TestHostile_AGoexitInASignalKeepsTheKeyNoLongerThanItsLease(t *testing.T) {
	payments := []guard.OperationOption{guard.ForPayments(), guard.AtMostOnce()}
	for name, c := range map[string]struct {
		exits   exits
		options []guard.OperationOption
		runs    int           // of its action
		then    guard.Outcome // of another process, a lease later if the action has not run
	}{
		"lease acquired":               {exits{line: "lease acquired"}, nil, 0, guard.OutcomeExecuted},
		"lease acquired, of a payment": {exits{line: "lease acquired"}, payments, 0, ""},
		"lease ended":                  {exits{line: "lease ended"}, nil, 1, guard.OutcomeReplayed},
		"result too large":             {exits{line: "result returned but"}, []guard.OperationOption{guard.WithMaxResultBytes(1)}, 1, guard.OutcomeExecuted},
		"call starts":                  {exits{start: "guard " + opName}, nil, 0, guard.OutcomeExecuted},
		"call ends":                    {exits{end: "guard " + opName}, nil, 1, guard.OutcomeReplayed},
		"reserve starts":               {exits{start: telemetry.SpanReserve}, nil, 0, guard.OutcomeExecuted},
		"reserve ends":                 {exits{end: telemetry.SpanReserve}, nil, 0, guard.OutcomeExecuted},
		"replace starts":               {exits{start: telemetry.SpanReplace}, nil, 1, guard.OutcomeReplayed},
		"replace starts, of a payment": {exits{start: telemetry.SpanReplace}, payments, 1, guard.OutcomeReplayed},
		"replace ends":                 {exits{end: telemetry.SpanReplace}, nil, 1, guard.OutcomeReplayed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &countingStore{MemoryStore: guard.NewMemoryStore()}
				defer store.over.Store(true)
				op := operationOn(t, store, c.options, telemetry.Options{
					TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(c.exits)), Logger: slog.New(c.exits),
				})
				runs, returned, gone := 0, false, make(chan struct{})
				go func() {
					defer close(gone)
					_, _ = op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
						runs++
						time.Sleep(25 * time.Second) // over renewals
						return "charged", nil
					})
					returned = true
				}()
				<-gone
				if runs != c.runs || returned {
					t.Errorf("%d runs, returned: %t, want %d and that the goroutine has ended", runs, returned, c.runs)
				}
				renewals := store.renewals.Load()
				if runs == 0 {
					time.Sleep(guard.DefaultLease)
				}
				defer func() {
					time.Sleep(guard.DefaultLease)
					if n := store.renewals.Load() - renewals; n != 0 {
						t.Errorf("%d renewals after the goroutine had ended", n)
					}
				}()
				another := operationOn(t, store, append(c.options, guard.OnInFlight(guard.Refuse)), telemetry.Options{})
				got, err := another.DoResult(t.Context(), "order-1", returns("charged"))
				if err == nil && got.How == c.then && got.Value == "charged" {
					return
				}
				if c.then != "" || !errors.Is(err, guard.ErrOutcomeUnknown) {
					t.Errorf("another call: %+v, %v, want it %q", got, err, c.then)
				}
			})
		})
	}
}

// operationOn makes an operation as a process of its own does.
func operationOn(
	t *testing.T, store guard.Store, options []guard.OperationOption, signals telemetry.Options,
) *guard.Operation[string] {
	t.Helper()
	tel, err := telemetry.New(signals)
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(store, guard.WithObserver(tel))
	if err != nil {
		t.Fatal(err)
	}
	op, err := guard.NewOperation[string](g, opName, options...)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// countingStore counts the renewals, until it says that every lease is lost.
type countingStore struct {
	*guard.MemoryStore
	renewals atomic.Int64
	over     atomic.Bool
}

func (s *countingStore) Renew(ctx context.Context, req guard.RenewRequest) (guard.RenewReply, error) {
	if s.over.Load() {
		return guard.RenewReply{Status: guard.RenewLost}, nil
	}
	s.renewals.Add(1)
	return s.MemoryStore.Renew(ctx, req)
}
