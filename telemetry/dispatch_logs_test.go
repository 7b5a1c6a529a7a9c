package telemetry_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// ofDispatcher are the attributes of who may have had the effect.
func ofDispatcher(more map[string]any) map[string]any {
	more[telemetry.LogDispatcher] = "host/3"
	more[telemetry.LogDispatcherFence] = float64(7)
	more[telemetry.LogDispatcherTraceID] = dispatcherTrace
	return more
}

func TestLogs_ATakeoverSaysThatAnEffectMayHaveHappenedAndWhose(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, call := l.call(t)
	call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: takenOver()})
	wantLine(t, l.logged(t, "INFO", "taken over"), ofDispatcher(map[string]any{
		telemetry.LogDispatched:      true,
		telemetry.LogPrevious:        "host/2",
		telemetry.LogPreviousFence:   float64(8),
		telemetry.LogPreviousTraceID: otherTrace,
	}))
}

func TestLogs_ATakeoverOfWhatWasNotDispatchedNamesNoDispatcher(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, call := l.call(t)
	call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: undispatched()})
	line := l.logged(t, "INFO", "taken over")
	for _, key := range []string{telemetry.LogDispatched, telemetry.LogDispatcher, telemetry.LogDispatcherFence} {
		if value, ok := line[key]; ok {
			t.Errorf("%s = %v, want none", key, value)
		}
	}
}

func TestLogs_AKeyThatIsHeldIsAnErrorThatSaysWhomToAskAbout(t *testing.T) {
	t.Parallel()
	noEvidence := abandoned()
	noEvidence.Dispatch = nil
	holder := map[string]any{
		telemetry.LogReason: "abandoned", telemetry.LogHolder: "host/2",
		telemetry.LogHolderFence: float64(8), telemetry.LogHolderTraceID: otherTrace,
	}
	for name, tc := range map[string]struct {
		record *guard.Record
		want   map[string]any
	}{
		"of another dispatcher": {abandoned(), ofDispatcher(map[string]any{})},
		"of its own owner": {noEvidence, map[string]any{
			telemetry.LogDispatcher: "host/2", telemetry.LogDispatcherFence: float64(8),
			telemetry.LogDispatcherTraceID: otherTrace,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ctx, call := l.call(t)
			call.Event(ctx, guard.Event{Kind: guard.EventHeld, Record: tc.record, Reason: guard.ReasonAbandoned})
			call.End(guard.CallEnd{Outcome: guard.OutcomeUnknown, Err: guard.ErrOutcomeUnknown})
			line := l.logged(t, "ERROR", "key held")
			wantLine(t, line, holder)
			wantLine(t, line, tc.want)
			wantLine(t, line, map[string]any{
				telemetry.LogTraceID: l.one(t, spanCall).SpanContext.TraceID().String(),
			})
		})
	}
}

func TestLogs_AKeyThatTheCallItselfHoldsHasItsFence(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, call := l.call(t)
	call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: takenOver()})
	call.Event(ctx, guard.Event{
		Kind: guard.EventHeld, Record: takenOver(), Reason: guard.ReasonCannotTell, Err: fmt.Errorf("ask: %w", &declined{"4242"}),
	})
	wantLine(t, l.logged(t, "ERROR", "key held"), ofDispatcher(map[string]any{
		telemetry.LogReason: "cannot_tell", telemetry.LogFence: float64(9), telemetry.LogHolderFence: float64(9),
		telemetry.LogErrorType: "*telemetry_test.declined",
	}))
}

func TestLogs_AnUnknownOutcomeIsOneWarning(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, call := l.call(t)
	call.Event(ctx, guard.Event{Kind: guard.EventUnknown, Record: abandoned(), Left: guard.DefaultRetention})
	call.End(guard.CallEnd{Outcome: guard.OutcomeUnknown, Err: guard.ErrOutcomeUnknown})
	if lines := l.lines(t); len(lines) != 1 {
		t.Errorf("%d lines, want 1:\n%s", len(lines), l.logs)
	}
	line := l.logged(t, "WARN", "unknown")
	wantLine(t, line, ofDispatcher(map[string]any{
		telemetry.LogHolder: "host/2", telemetry.LogHolderFence: float64(8), telemetry.LogHolderTraceID: otherTrace,
	}))
	if left, ok := line[telemetry.LogLeaseLeft]; ok {
		t.Errorf("lease_left = %v of a record without a lease", left)
	}
}

func TestLogs_ARecoveryNamesTheOwnerWhoseResultItIs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, call := l.call(t)
	record := takenOver()
	call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: record})
	record.Dispatch.Owner = guard.Owner{Label: "lent"} // what is kept is copied
	call.End(guard.CallEnd{Outcome: guard.OutcomeRecovered, Fence: 9, Attempt: 3})
	wantLine(t, l.logged(t, "INFO", "recovered"), ofDispatcher(map[string]any{
		telemetry.LogOutcome: "recovered", telemetry.LogFence: float64(9),
	}))
}

func TestLogs_ARecoveryWithoutEvidenceIsLoggedToo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, call := l.call(t)
	call.End(guard.CallEnd{Outcome: guard.OutcomeRecovered})
	if dispatcher, ok := l.logged(t, "INFO", "recovered")[telemetry.LogDispatcher]; ok {
		t.Errorf("dispatcher = %v, want none", dispatcher)
	}
}

func TestLogs_ARememberedErrorIsNotCalledAResult(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	failed := abandoned()
	failed.Status, failed.Dispatch = guard.StatusFailed, nil
	ctx, call := l.call(t)
	call.Event(ctx, guard.Event{Kind: guard.EventHit, Record: failed})
	call.End(guard.CallEnd{Outcome: guard.OutcomeReplayed, Err: &guard.RememberedError{Err: errors.New("declined")}})
	wantLine(t, l.logged(t, "INFO", "remembered error returned"), map[string]any{
		telemetry.LogHolder: "host/2", telemetry.LogHolderTraceID: otherTrace,
	})
}
