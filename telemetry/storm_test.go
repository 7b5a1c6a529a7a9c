package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// withOptions makes the lab's Telemetry anew.
func (l *lab) withOptions(t *testing.T, change func(*telemetry.Options)) *lab {
	t.Helper()
	options := telemetry.Options{
		Registerer: l.registry, TracerProvider: l.provider, Logger: slog.New(slog.NewJSONHandler(l.logs, nil)),
	}
	change(&options)
	var err error
	if l.tel, err = telemetry.New(options); err != nil {
		t.Fatal(err)
	}
	return l
}

// of returns the lines with a message, and how many others they stand for.
func (l *lab) of(t *testing.T, message string) (lines, suppressed int) {
	t.Helper()
	for _, line := range l.lines(t) {
		if line["msg"] != message {
			continue
		}
		lines++
		if n, ok := line[telemetry.LogSuppressed].(float64); ok {
			suppressed += int(n)
			wantLine(t, line, map[string]any{telemetry.LogOperation: opName})
		}
	}
	return lines, suppressed
}

const hitMessage = "onceguard: stored result returned"

func TestLogs_AStormBecomesAFewLinesAndACountASecond(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		burst, lines, suppressed int
	}{
		{0, telemetry.DefaultLogBurst + 1, 90}, {3, 4, 97}, {-1, 100, 0}, {100, 100, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t).withOptions(t, func(o *telemetry.Options) { o.LogBurst = tc.burst })
			op := l.op(t, guard.NewMemoryStore())
			for second := range 3 {
				for range 100 {
					if _, err := op.Do(t.Context(), "order-1", returns("done")); err != nil {
						t.Fatal(err)
					}
				}
				if second == 0 { // the first call of all was no hit
					_, _ = op.Do(t.Context(), "order-1", returns("done"))
				}
				time.Sleep(1100 * time.Millisecond)
				synctest.Wait()
			}
			if lines, suppressed := l.of(t, hitMessage); lines != 3*tc.lines || suppressed != 3*tc.suppressed {
				t.Errorf("burst %d: %d lines for %d more, want %d for %d", tc.burst, lines, suppressed, 3*tc.lines, 3*tc.suppressed)
			}
		})
	}
}

func TestLogs_AStormOfOneMessageHidesNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t).withOptions(t, func(o *telemetry.Options) { o.LogBurst = 1 })
		op := l.op(t, guard.NewMemoryStore())
		for range 50 {
			_, _ = op.Do(t.Context(), "order-1", returns("done"), guard.WithInput(1))
		}
		_, _ = op.Do(t.Context(), "order-1", returns("done"), guard.WithInput(2))
		l.logged(t, "WARN", "another input")
	})
}

func TestLogs_KeysThatSomebodyMustLookAtAreInNoCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t).withOptions(t, func(o *telemetry.Options) { o.LogBurst = 1 })
		op := l.op(t, guard.NewMemoryStore(), guard.AtMostOnce(), guard.OnStorageError(guard.FailClosed))
		for i := range 50 {
			_, _ = op.Do(t.Context(), strconv.Itoa(i), fails(errors.New("timeout")))
		}
		if lines, suppressed := l.of(t, "onceguard: key held, the effect may have happened and somebody must find out"); lines != 50 || suppressed != 0 {
			t.Errorf("%d lines for %d more, want 50", lines, suppressed)
		}
	})
}

func TestLogs_ACompletionThatIsRefusedIsAWarning(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	later := errors.New("later")
	op := l.op(t, guard.NewMemoryStore(), guard.KeepReserved(func(err error) (time.Duration, bool) { return time.Hour, errors.Is(err, later) }))
	var r guard.Reservation
	_, _ = op.Do(t.Context(), "order-1", func(ctx context.Context) (string, error) {
		r, _ = guard.ReservationFromContext(ctx)
		return "", later
	})
	if err := op.Complete(t.Context(), r, "yes", nil); err != nil {
		t.Fatal(err)
	}
	if err := op.Complete(t.Context(), r, "no", nil); !errors.Is(err, guard.ErrStale) {
		t.Fatal(err)
	}
	wantLine(t, l.logged(t, "WARN", "completion refused"), map[string]any{telemetry.LogOutcome: "rejected"})
	spans := l.named(spanCall)
	wantAttrs(t, spans[len(spans)-1], map[string]string{telemetry.AttrErrorType: "stale", telemetry.AttrOutcome: "rejected"})
}

func TestSpans_RenewalsCanBeThinnedToSlowAndFailedOnes(t *testing.T) {
	t.Parallel()
	for over, want := range map[time.Duration]int{0: 5, 300 * time.Millisecond: 2, time.Nanosecond: 5} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t).withOptions(t, func(o *telemetry.Options) { o.RenewSpansOver = over })
			store := &slowRenewals{Store: guard.NewMemoryStore(), takes: []time.Duration{
				time.Millisecond, 400 * time.Millisecond, time.Millisecond, -1, time.Millisecond,
			}}
			_, err := l.op(t, store, guard.WithLease(3*time.Second)).Do(t.Context(), "order-1", func(context.Context) (string, error) {
				for store.n.Load() < 5 {
					time.Sleep(100 * time.Millisecond)
					synctest.Wait()
				}
				return "done", nil
			})
			if err != nil {
				t.Fatal(err)
			}
			spans := l.named(telemetry.SpanRenew)
			if len(spans) != want {
				t.Fatalf("over %s: %d spans, want %d", over, len(spans), want)
			}
			call, slow, failed := l.one(t, spanCall), 0, 0
			for _, s := range spans {
				wantChild(t, s, call)
				if s.EndTime.Sub(s.StartTime) == 400*time.Millisecond {
					slow++
				}
				if attrs(s)[telemetry.AttrErrorType] != "" {
					failed++
				}
			}
			if slow != 1 || failed != 1 {
				t.Errorf("over %s: %d slow and %d failed, want one of each", over, slow, failed)
			}
		})
	}
}

// slowRenewals takes so long for each renewal; a negative time fails.
type slowRenewals struct {
	guard.Store
	takes []time.Duration
	n     atomic.Int32 // renewals that have ended
}

func (s *slowRenewals) Renew(ctx context.Context, req guard.RenewRequest) (guard.RenewReply, error) {
	takes := s.takes[s.n.Load()]
	defer s.n.Add(1)
	if takes < 0 {
		return guard.RenewReply{}, errStoreDown
	}
	time.Sleep(takes)
	return s.Store.Renew(ctx, req)
}

func TestNew_ANegativeLimitOfRenewSpansIsAnError(t *testing.T) {
	t.Parallel()
	provider := trace.NewTracerProvider(trace.WithSyncer(tracetest.NewInMemoryExporter()))
	if _, err := telemetry.New(telemetry.Options{TracerProvider: provider, RenewSpansOver: -1}); err == nil {
		t.Error("no error")
	}
}
