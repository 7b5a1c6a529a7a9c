package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

func TestCase_O6_AnAbsorbedStorageErrorIsNoErrorOfTheCallButHasAType(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	store := newBrokenStore()
	store.fail(&guard.ClassifiedError{Class: guard.ClassReadOnly, Err: errors.New("READONLY")},
		guard.PhaseReserve, guard.PhaseReplace)
	if _, err := l.op(t, store).Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{telemetry.SpanReserve, telemetry.SpanReplace} {
		span := l.one(t, name)
		wantStatus(t, span, codes.Unset)
		wantAttrs(t, span, map[string]string{telemetry.AttrErrorType: "readonly", telemetry.AttrPhaseResult: ""})
	}
	call := l.one(t, spanCall)
	wantStatus(t, call, codes.Unset)
	wantAttrs(t, call, map[string]string{
		telemetry.AttrOutcome:         "unguarded",
		telemetry.AttrUnguardedReason: "storage",
		telemetry.AttrUnstoredReason:  "storage",
		telemetry.AttrErrorType:       "",
	})
}

// declined is an error of the action.
type declined struct{ card string }

func (d *declined) Error() string { return "declined: " + d.card }

func TestSpans_ACallThatFailsItsCallerHasAnErrorTypeAndStatusError(t *testing.T) {
	t.Parallel()
	down := newBrokenStore()
	down.fail(&guard.ClassifiedError{Class: guard.ClassTimeout, Err: errors.New("slow")}, guard.PhaseReserve)
	for _, tc := range []struct {
		name    string
		store   guard.Store
		key     string
		action  func(context.Context) (string, error)
		options []guard.CallOption
		want    string // error.type
		outcome string
	}{
		{name: "failed", action: fails(&declined{"4242"}), want: "*telemetry_test.declined", outcome: "failed"},
		{
			name:   "failed, wrapped in text",
			action: fails(fmt.Errorf("charge: %w", &declined{"4242"})), want: "*telemetry_test.declined", outcome: "failed",
		},
		{name: "failed by a context of its own", action: fails(context.Canceled), want: "*errors.errorString", outcome: "failed"},
		{name: "rejected", store: down, want: "timeout", outcome: "rejected"},
		{name: "invalid key", key: "new\nline", want: "invalid_key", outcome: "invalid"},
		{
			name: "invalid input", options: []guard.CallOption{guard.WithInput(make(chan int))},
			want: "invalid_input", outcome: "invalid",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			if tc.store == nil {
				tc.store = guard.NewMemoryStore()
			}
			if tc.key == "" {
				tc.key = "order-1"
			}
			if tc.action == nil {
				tc.action = returns("done")
			}
			op := l.op(t, tc.store, guard.OnStorageError(guard.FailClosed))
			if _, err := op.Do(t.Context(), tc.key, tc.action, tc.options...); err == nil {
				t.Fatal("the call succeeded")
			}
			call := l.one(t, spanCall)
			wantStatus(t, call, codes.Error)
			wantAttrs(t, call, map[string]string{telemetry.AttrErrorType: tc.want, telemetry.AttrOutcome: tc.outcome})
			if len(call.Events) != 0 {
				t.Errorf("the span has the events %v: they hold error texts", call.Events)
			}
			wantSamples(t, l.registry, map[string]string{`onceguard_calls_total{outcome="` + tc.outcome + `"}`: "1"})
		})
	}
}

func TestSpans_APanicOfTheActionIsAnErrorOfTheCall(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	op := l.op(t, guard.NewMemoryStore())
	func() {
		defer func() { _ = recover() }()
		_, _ = op.Do(t.Context(), "order-1", func(context.Context) (string, error) { panic("secret") })
	}()
	call := l.one(t, spanCall)
	wantStatus(t, call, codes.Error)
	wantAttrs(t, call, map[string]string{telemetry.AttrErrorType: "unwound", telemetry.AttrOutcome: "failed"})
	wantAttrs(t, l.one(t, telemetry.SpanRelease), map[string]string{telemetry.AttrPhaseResult: "released"})
}

func TestSpans_AnActionThatGivesUpWithItsCallerHasNotFailed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		options []guard.CallOption
		err     error // of the action, nil for that of its context
		status  codes.Code
		outcome guard.Outcome
		want    string
	}{
		{name: "unnamed", outcome: guard.OutcomeInterrupted, want: "canceled"},
		{
			name: "named by an adapter", outcome: guard.OutcomeInterrupted, want: "shutdown",
			options: []guard.CallOption{guard.CancelReason(func(cause error) string {
				if errors.Is(cause, errShutdown) {
					return "shutdown"
				}
				return "another"
			})},
		},
		{
			name: "the adapter panics", outcome: guard.OutcomeInterrupted, want: "canceled",
			options: []guard.CallOption{guard.CancelReason(func(error) string { panic("no name") })},
		},
		{name: "with the cause", err: fmt.Errorf("charge: %w", errShutdown), outcome: guard.OutcomeInterrupted, want: "canceled"},
		{name: "with an error of its own", err: &declined{}, status: codes.Error, outcome: guard.OutcomeFailed, want: "*telemetry_test.declined"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ctx, leave := context.WithCancelCause(t.Context())
			_, err := l.op(t, guard.NewMemoryStore()).Do(ctx, "order-1", func(ctx context.Context) (string, error) {
				leave(errShutdown)
				if tc.err != nil {
					return "", tc.err
				}
				return "", ctx.Err()
			}, tc.options...)
			if err == nil {
				t.Fatal("the call succeeded")
			}
			call := l.one(t, spanCall)
			wantStatus(t, call, tc.status)
			wantAttrs(t, call, map[string]string{telemetry.AttrErrorType: tc.want, telemetry.AttrOutcome: string(tc.outcome)})
			wantAttrs(t, l.one(t, telemetry.SpanRelease), map[string]string{telemetry.AttrPhaseResult: "released"})
			result := map[codes.Code]string{codes.Unset: "interrupted", codes.Error: "error"}[tc.status]
			wantSamples(t, l.registry, map[string]string{
				`onceguard_calls_total{outcome="` + string(tc.outcome) + `"}`:      "1",
				`onceguard_action_duration_seconds_count{result="` + result + `"}`: "1",
			})
		})
	}
}

var errShutdown = errors.New("the process shuts down")

func TestSpans_CancellationIsTheCallersOwnButADeadlineIsAnError(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		within func(context.Context) (context.Context, context.CancelFunc)
		status codes.Code
		want   string
	}{
		{"canceled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, codes.Unset, "canceled"},
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, codes.Error, "deadline_exceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				store := guard.NewMemoryStore()
				reserved(t.Context(), t, store, otherTraceParent, time.Minute)
				ctx, cancel := tc.within(t.Context())
				defer cancel()
				if _, err := l.op(t, store).Do(ctx, "order-1", returns("done")); err == nil {
					t.Fatal("the call succeeded")
				}
				call := l.one(t, spanCall)
				wantStatus(t, call, tc.status)
				wantAttrs(t, call, map[string]string{
					telemetry.AttrErrorType: tc.want, telemetry.AttrOutcome: "canceled",
				})
				wantAttrs(t, l.one(t, telemetry.SpanWait), map[string]string{telemetry.AttrPhaseResult: "canceled"})
			})
		})
	}
}

func TestSpans_ALostLeaseAndAStaleResultAreOnTheSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		store := newBrokenStore()
		op := l.op(t, store, guard.WithLease(3*time.Second))
		result, err := op.DoResult(t.Context(), "order-1", func(ctx context.Context) (string, error) {
			store.fail(errors.New("down"), guard.PhaseRenew)
			time.Sleep(4 * time.Second)
			reserved(ctx, t, store, otherTraceParent, time.Minute)
			return "done", nil
		})
		if err != nil || !result.Stale {
			t.Fatalf("%+v, %v, want a stale result", result, err)
		}
		call := l.one(t, spanCall)
		wantStatus(t, call, codes.Unset)
		wantAttrs(t, call, map[string]string{
			telemetry.AttrStale: "true", telemetry.AttrLostReason: "expired", telemetry.AttrOutcome: "executed",
		})
		for _, renewal := range l.named(telemetry.SpanRenew) {
			wantChild(t, renewal, call)
			wantStatus(t, renewal, codes.Unset)
			wantAttrs(t, renewal, map[string]string{telemetry.AttrErrorType: "other"})
		}
		wantSamples(t, l.registry, map[string]string{
			`onceguard_leases_lost_total{}`:   "1",
			`onceguard_stale_results_total{}`: "1",
			`onceguard_leases_held{}`:         "0",
			`onceguard_result_bytes_count{}`:  "0",
		})
	})
}

func TestSpans_AResultThatComesLaterIsNoError(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	later := errors.New("result comes later")
	op := l.op(t, guard.NewMemoryStore(), guard.KeepReserved(func(err error) (time.Duration, bool) {
		return time.Hour, errors.Is(err, later)
	}))
	if _, err := op.Do(t.Context(), "order-1", fails(later)); !errors.Is(err, later) {
		t.Fatal(err)
	}
	call := l.one(t, spanCall)
	wantStatus(t, call, codes.Unset)
	wantAttrs(t, call, map[string]string{telemetry.AttrOutcome: "pending"})
	wantSamples(t, l.registry, map[string]string{
		`onceguard_calls_total{outcome="pending"}`: "1", `onceguard_leases_held{}`: "0",
	})
}

func TestSpans_ANestedCallHasATypeOfItsOwn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	op := l.op(t, guard.NewMemoryStore())
	_, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (string, error) {
		return op.Do(ctx, "order-1", returns("inner"))
	})
	if !errors.Is(err, guard.ErrNestedCall) {
		t.Fatal(err)
	}
	inner := l.named(spanCall)[0]
	wantStatus(t, inner, codes.Error)
	wantAttrs(t, inner, map[string]string{telemetry.AttrErrorType: "nested_call", telemetry.AttrOutcome: "invalid"})
}
