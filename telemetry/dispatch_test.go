package telemetry_test

import (
	"context"
	"testing"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// The owners of a key whose effect may have happened: the dispatcher let it out, the
// last one took over from it and died too, and this call came after both.
const (
	dispatcherTrace       = "4bf92f3577b34da6a3ce929d0e0e4736"
	dispatcherTraceParent = "00-" + dispatcherTrace + "-00f067aa0ba902b7-01"
)

func dispatcher() guard.Owner {
	return guard.Owner{Token: "dispatcher", Label: "host/3", TraceParent: dispatcherTraceParent}
}

func last() guard.Owner {
	return guard.Owner{Token: "last", Label: "host/2", TraceParent: otherTraceParent}
}

// takenOver is this call's reservation after both.
func takenOver() *guard.Record {
	return &guard.Record{
		Status: guard.StatusPending, Owner: guard.Owner{Token: "own", Label: "host/1"}, Fence: 9, Attempt: 3,
		TookOver: &guard.Previous{Owner: last(), Fence: 8},
		Dispatch: &guard.Dispatch{Owner: dispatcher(), Fence: 7},
	}
}

// undispatched is this call's reservation, after one that let nothing out. Its own
// dispatch is from its first moment on.
func undispatched() *guard.Record {
	r := takenOver()
	r.Dispatch = &guard.Dispatch{Owner: r.Owner, Fence: r.Fence}
	return r
}

// abandoned is the record of an owner that is gone, held since this call found it.
func abandoned() *guard.Record {
	return &guard.Record{
		Status: guard.StatusHeld, Owner: last(), Fence: 8, Attempt: 2,
		Dispatch: &guard.Dispatch{Owner: dispatcher(), Fence: 7},
	}
}

// call begins a call whose phases and events the test makes up.
func (l *lab) call(t *testing.T) (context.Context, guard.CallObserver) {
	t.Helper()
	return l.tel.Operation(guard.OperationInfo{Name: opName, Lease: guard.DefaultLease}).Call(t.Context(), guard.CallInfo{
		Key: guard.Key{Operation: opName, Name: "order-1"}, OwnerLabel: "host/1",
	})
}

func TestSeries_ATakeoverTellsWhetherAnEffectMayHaveHappened(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, record := range []*guard.Record{takenOver(), undispatched(), undispatched()} {
		ctx, call := l.call(t)
		call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: record})
		call.Event(ctx, guard.Event{Kind: guard.EventEnded, Record: record})
		call.End(guard.CallEnd{Outcome: guard.OutcomeExecuted})
	}
	wantSamples(t, l.registry, map[string]string{
		`onceguard_takeovers_total{dispatched="true"}`:  "1",
		`onceguard_takeovers_total{dispatched="false"}`: "2",
		`onceguard_leases_held{}`:                       "0",
	})
}

func TestSeries_ARecoveryIsTimedAndItsOutcomeCounted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, call := l.call(t)
	call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: takenOver()})
	wantSamples(t, l.registry, map[string]string{`onceguard_leases_held{}`: "1"})
	_, recovery := call.Phase(ctx, guard.PhaseRecover)
	recovery.End(guard.PhaseEnd{Result: "found", Record: takenOver()})
	call.Event(ctx, guard.Event{Kind: guard.EventEnded, Record: takenOver()})
	call.End(guard.CallEnd{Outcome: guard.OutcomeRecovered})
	wantSamples(t, l.registry, map[string]string{
		`onceguard_phase_duration_seconds_count{phase="recover"}`: "1",
		`onceguard_calls_total{outcome="recovered"}`:              "1",
		`onceguard_leases_held{}`:                                 "0",
		`onceguard_oldest_lease_age_seconds{}`:                    "0",
	})
}

func TestSeries_EachKeyThatIsHeldIsCountedByItsReason(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	reasons := []string{
		guard.ReasonPolicy, guard.ReasonDispatched, guard.ReasonUnwound, guard.ReasonUnstored,
		guard.ReasonCannotTell, guard.ReasonAbandoned,
	}
	ctx, call := l.call(t)
	for i, reason := range reasons {
		series := `onceguard_holds_total{reason="` + reason + `"}`
		wantSamples(t, l.registry, map[string]string{series: "0"})
		for range i + 1 {
			call.Event(ctx, guard.Event{Kind: guard.EventHeld, Record: abandoned(), Reason: reason})
		}
		wantSamples(t, l.registry, map[string]string{series: string(rune('1' + i))})
	}
	call.Event(ctx, guard.Event{Kind: guard.EventHeld, Record: abandoned(), Reason: "of a later guard"})
	call.Event(ctx, guard.Event{Kind: guard.EventUnknown, Record: abandoned()})
	call.End(guard.CallEnd{Outcome: guard.OutcomeUnknown, Err: guard.ErrOutcomeUnknown})
	wantSamples(t, l.registry, map[string]string{
		`onceguard_calls_total{outcome="unknown"}`: "1",
		`onceguard_leases_held{}`:                  "0",
	})
	if got := len(samples(t, l.registry)); got != telemetry.SeriesPerOperation {
		t.Errorf("%d series, want %d", got, telemetry.SeriesPerOperation)
	}
}

func TestSeries_AHoldIsNoResult(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, call := l.call(t)
	for _, end := range []guard.PhaseEnd{
		{Result: string(guard.HoldHeld), Record: takenOver()},
		{Result: string(guard.HoldRefused), Record: takenOver()},
		{Result: string(guard.HoldRestored), Record: takenOver()},
	} {
		_, hold := call.Phase(ctx, guard.PhaseReplace)
		hold.End(end)
	}
	wantSamples(t, l.registry, map[string]string{
		`onceguard_phase_duration_seconds_count{phase="replace"}`: "3",
		`onceguard_result_bytes_count{}`:                          "0",
	})
	stored := takenOver()
	stored.Result = []byte("declined")
	_, replace := call.Phase(ctx, guard.PhaseReplace)
	replace.End(guard.PhaseEnd{Result: string(guard.ReplaceStored), Record: stored})
	wantSamples(t, l.registry, map[string]string{`onceguard_result_bytes_sum{}`: "8"})
	call.End(guard.CallEnd{Outcome: guard.OutcomeFailed})
}
