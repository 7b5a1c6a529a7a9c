package telemetry_test

import (
	"context"
	"log/slog"
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

// hostileProcessor panics when a span starts, or when it ends.
type hostileProcessor struct{ atStart bool }

func (p hostileProcessor) OnStart(context.Context, sdktrace.ReadWriteSpan) {
	if p.atStart {
		panic("processor: start")
	}
}

func (p hostileProcessor) OnEnd(sdktrace.ReadOnlySpan) {
	if !p.atStart {
		panic("processor: end")
	}
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
