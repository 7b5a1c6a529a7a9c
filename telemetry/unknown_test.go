package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// What a real guard tells of outcomes that nobody knows.

// dispatched leaves the reservation of a dispatcher in a store, and returns long after
// its lease has run out.
func dispatched(t *testing.T, store guard.Store) {
	t.Helper()
	reply, err := store.Reserve(t.Context(), guard.ReserveRequest{
		Key:   guard.Key{Operation: opName, Name: "order-1"},
		Owner: dispatcher(), Lease: time.Second, Retention: time.Hour,
		Dispatched: true, HoldRetention: guard.DefaultHoldRetention,
	})
	if err != nil || !reply.Acquired {
		t.Fatalf("reserve = %+v, %v", reply, err)
	}
	time.Sleep(2 * time.Minute)
}

func TestUnknown_AKeyWhoseOwnerIsGoneIsHeldOnceAndUnknownToAllWhoCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		store := guard.NewMemoryStore()
		op := l.op(t, store, guard.OnStorageError(guard.FailClosed), guard.AtMostOnce())
		dispatched(t, store)
		for range 2 {
			if _, err := op.Do(t.Context(), "order-1", returns("twice")); !errors.Is(err, guard.ErrOutcomeUnknown) {
				t.Fatalf("err = %v", err)
			}
		}
		calls := l.named(spanCall)
		for i, reason := range []string{"abandoned", ""} {
			wantLinks(t, calls[i], "unknown "+dispatcherTrace)
			wantStatus(t, calls[i], codes.Error)
			wantAttrs(t, calls[i], map[string]string{
				telemetry.AttrOutcome: "unknown", telemetry.AttrErrorType: "outcome_unknown", telemetry.AttrHeldReason: reason,
			})
		}
		wantLine(t, l.logged(t, "ERROR", "key held"), map[string]any{
			telemetry.LogReason: "abandoned", telemetry.LogDispatcher: "host/3", telemetry.LogDispatcherTraceID: dispatcherTrace,
		})
		if lines := l.lines(t); len(lines) != 3 {
			t.Errorf("%d lines, want the hold and one for each call:\n%s", len(lines), l.logs)
		}
		wantSamples(t, l.registry, map[string]string{
			`onceguard_holds_total{reason="abandoned"}`: "1",
			`onceguard_calls_total{outcome="unknown"}`:  "2",
			`onceguard_collisions_total{}`:              "0",
			`onceguard_leases_held{}`:                   "0",
		})
	})
}

func TestUnknown_ARecoveryIsSeenWhateverTheHookSays(t *testing.T) {
	t.Parallel()
	for finding, tc := range map[guard.Finding]struct {
		outcome, held, errorType string
		links                    []string
		err                      error
	}{
		guard.Found:    {outcome: "recovered"},
		guard.NotFound: {outcome: "executed"},
		guard.CannotTell: {
			outcome: "unknown", held: "cannot_tell", errorType: "*telemetry_test.declined",
			links: []string{"unknown " + dispatcherTrace}, err: fmt.Errorf("ask: %w", &declined{secret}),
		},
	} {
		t.Run(string(finding), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				store := guard.NewMemoryStore()
				hook := func(context.Context, guard.Evidence) (string, guard.Finding, error) { return "done", finding, tc.err }
				op := l.op(t, store, guard.OnStorageError(guard.FailClosed), guard.WithRecovery(hook))
				dispatched(t, store)
				_, err := op.Do(t.Context(), "order-1", returns("done"))
				if errors.Is(err, guard.ErrOutcomeUnknown) != (finding == guard.CannotTell) {
					t.Fatalf("err = %v", err)
				}
				call, recovery := l.one(t, spanCall), l.one(t, telemetry.SpanRecover)
				wantChild(t, recovery, call)
				wantLinks(t, recovery, "dispatched "+dispatcherTrace)
				wantAttrs(t, recovery, map[string]string{
					telemetry.AttrPhaseResult: string(finding), telemetry.AttrErrorType: tc.errorType,
				})
				wantLinks(t, call, append([]string{"took_over " + dispatcherTrace}, tc.links...)...)
				wantAttrs(t, call, map[string]string{
					telemetry.AttrOutcome: tc.outcome, telemetry.AttrDispatched: "true", telemetry.AttrHeldReason: tc.held,
				})
				wantSamples(t, l.registry, map[string]string{
					`onceguard_takeovers_total{dispatched="true"}`:            "1",
					`onceguard_calls_total{outcome="` + tc.outcome + `"}`:     "1",
					`onceguard_phase_duration_seconds_count{phase="recover"}`: "1",
					`onceguard_leases_held{}`:                                 "0",
				})
				if strings.Contains(l.everything(t), "4242") {
					t.Error("the hook's error is in a signal")
				}
			})
		})
	}
}

func TestUnknown_AnActionWhoseErrorNobodyKnowsHoldsItsKey(t *testing.T) {
	t.Parallel()
	for reason, policy := range map[string]guard.FailurePolicy{
		"dispatched": func(error, bool) guard.Disposition { return guard.Undecided },
		"policy":     func(error, bool) guard.Disposition { return guard.Hold },
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			store := guard.NewMemoryStore()
			op := l.op(t, store, guard.OnStorageError(guard.FailClosed), guard.AtMostOnce(), guard.OnFailure(policy))
			_, err := op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
				store.Clear() // the hold is put in place anew then
				return "", &declined{secret}
			})
			if err == nil {
				t.Fatal("the action's error did not come back")
			}
			wantAttrs(t, l.one(t, telemetry.SpanReplace), map[string]string{telemetry.AttrPhaseResult: "restored"})
			wantAttrs(t, l.one(t, spanCall), map[string]string{
				telemetry.AttrOutcome: "failed", telemetry.AttrHeldReason: reason,
			})
			wantLine(t, l.logged(t, "ERROR", "key held"), map[string]any{
				telemetry.LogReason: reason, telemetry.LogDispatcher: "host/1",
			})
			wantSamples(t, l.registry, map[string]string{
				`onceguard_holds_total{reason="` + reason + `"}`: "1",
				`onceguard_result_bytes_count{}`:                 "0",
			})
		})
	}
}

func TestUnknown_ARememberedErrorIsAReplayThatFailsItsCaller(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	op := l.op(t, guard.NewMemoryStore(), guard.OnFailure(func(error, bool) guard.Disposition { return guard.Remember }))
	for range 2 {
		if _, err := op.Do(t.Context(), "order-1", fails(&declined{secret})); err == nil {
			t.Fatal("the action's error did not come back")
		}
	}
	calls := l.named(spanCall)
	wantLink(t, calls[1], calls[0], telemetry.LinkReplayed)
	wantStatus(t, calls[1], codes.Error)
	wantAttrs(t, calls[1], map[string]string{
		telemetry.AttrOutcome: "replayed", telemetry.AttrErrorType: "*guard.StoredError",
	})
	l.logged(t, "INFO", "remembered error returned")
	wantSamples(t, l.registry, map[string]string{
		`onceguard_hits_total{}`:                    "1",
		`onceguard_calls_total{outcome="replayed"}`: "1",
		`onceguard_result_bytes_count{}`:            "1",
	})
	if strings.Contains(l.everything(t), "4242") {
		t.Error("the text of the remembered error is in a signal")
	}
}
