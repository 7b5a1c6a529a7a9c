package telemetry_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// wantLinks checks the links of a span, each as its relation and its trace.
func wantLinks(t *testing.T, s tracetest.SpanStub, want ...string) {
	t.Helper()
	var got []string
	for _, link := range s.Links {
		for _, a := range link.Attributes {
			got = append(got, a.Value.AsString()+" "+link.SpanContext.TraceID().String())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("span %q has the links %q, want %q", s.Name, got, want)
	}
}

func TestSpans_ATakeoverLinksToTheLastOwnerAndToWhoMayHaveHadTheEffect(t *testing.T) {
	t.Parallel()
	same, untraced, broken := takenOver(), takenOver(), takenOver()
	same.TookOver.Owner = dispatcher()
	untraced.TookOver.Owner.TraceParent = ""
	broken.Dispatch.Owner.TraceParent = "broken"
	for _, tc := range []struct {
		name       string
		record     *guard.Record
		dispatched string
		want       []string
	}{
		{"both", takenOver(), "true", []string{"took_over " + otherTrace, "dispatched " + dispatcherTrace}},
		{"one and the same", same, "true", []string{"took_over " + dispatcherTrace}},
		{"the last without a trace", untraced, "true", []string{"dispatched " + dispatcherTrace}},
		{"a broken trace", broken, "true", []string{"took_over " + otherTrace}},
		{"dispatched by this call itself", undispatched(), "", []string{"took_over " + otherTrace}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ctx, call := l.call(t)
			call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: tc.record})
			call.End(guard.CallEnd{Outcome: guard.OutcomeExecuted, Fence: 9, Attempt: 3})
			span := l.one(t, spanCall)
			wantLinks(t, span, tc.want...)
			wantAttrs(t, span, map[string]string{
				telemetry.AttrTakeover: "true", telemetry.AttrDispatched: tc.dispatched,
			})
		})
	}
}

func TestSpans_AKeyThatWasNeverAnothersIsNoTakeover(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	own := undispatched()
	own.TookOver = nil
	ctx, call := l.call(t)
	call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: own})
	call.End(guard.CallEnd{Outcome: guard.OutcomeExecuted})
	wantLinks(t, l.one(t, spanCall))
	wantAttrs(t, l.one(t, spanCall), map[string]string{telemetry.AttrTakeover: "", telemetry.AttrDispatched: ""})
}

func TestSpans_ARecoveryTellsWhatTheHookFoundAndAboutWhom(t *testing.T) {
	t.Parallel()
	cleared := takenOver()
	cleared.Dispatch = nil
	for _, tc := range []struct {
		name     string
		acquired *guard.Record
		end      guard.PhaseEnd
		want     map[string]string
	}{
		{
			"found", takenOver(),
			guard.PhaseEnd{Result: "found", Record: takenOver()},
			map[string]string{telemetry.AttrPhaseResult: "found", telemetry.AttrErrorType: ""},
		},
		{
			"not found, by a record that is cleared by then", takenOver(),
			guard.PhaseEnd{Result: "not_found", Record: cleared},
			map[string]string{telemetry.AttrPhaseResult: "not_found", telemetry.AttrErrorType: ""},
		},
		{
			"the record of the phase alone", cleared,
			guard.PhaseEnd{Result: "cannot_tell", Record: takenOver()},
			map[string]string{telemetry.AttrPhaseResult: "cannot_tell", telemetry.AttrErrorType: ""},
		},
		{
			"no record", takenOver(),
			guard.PhaseEnd{Result: "cannot_tell", Err: fmt.Errorf("ask: %w", &declined{"4242"})},
			map[string]string{telemetry.AttrPhaseResult: "cannot_tell", telemetry.AttrErrorType: "*telemetry_test.declined"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ctx, call := l.call(t)
			call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: tc.acquired})
			_, recovery := call.Phase(ctx, guard.PhaseRecover)
			recovery.End(tc.end)
			call.End(guard.CallEnd{Outcome: guard.OutcomeRecovered, Fence: 9, Attempt: 3})
			span := l.one(t, telemetry.SpanRecover)
			wantChild(t, span, l.one(t, spanCall))
			wantLinks(t, span, "dispatched "+dispatcherTrace)
			wantStatus(t, span, codes.Unset)
			wantAttrs(t, span, tc.want)
		})
	}
}

func TestSpans_ARecoveredResultIsNoError(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, call := l.call(t)
	call.End(guard.CallEnd{Outcome: guard.OutcomeRecovered, Fence: 9, Attempt: 3})
	span := l.one(t, spanCall)
	wantStatus(t, span, codes.Unset)
	wantAttrs(t, span, map[string]string{
		telemetry.AttrOutcome: "recovered", telemetry.AttrErrorType: "", telemetry.AttrFence: "9",
	})
}

func TestSpans_AnUnknownOutcomeLinksToWhoMayHaveHadTheEffect(t *testing.T) {
	t.Parallel()
	noEvidence := abandoned()
	noEvidence.Dispatch = nil
	for name, tc := range map[string]struct {
		record *guard.Record
		want   []string
	}{
		"the dispatcher":             {abandoned(), []string{"unknown " + dispatcherTrace}},
		"the owner without evidence": {noEvidence, []string{"unknown " + otherTrace}},
		"nobody":                     {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ctx, call := l.call(t)
			call.Event(ctx, guard.Event{Kind: guard.EventHeld, Record: tc.record, Reason: guard.ReasonAbandoned})
			call.Event(ctx, guard.Event{Kind: guard.EventUnknown, Record: tc.record})
			call.End(guard.CallEnd{Outcome: guard.OutcomeUnknown, Err: &guard.OutcomeUnknownError{Err: &declined{"4242"}}})
			span := l.one(t, spanCall)
			wantLinks(t, span, tc.want...)
			wantStatus(t, span, codes.Error)
			wantAttrs(t, span, map[string]string{
				telemetry.AttrOutcome: "unknown", telemetry.AttrErrorType: "outcome_unknown",
				telemetry.AttrHeldReason: "abandoned",
			})
		})
	}
}

func TestSpans_ARememberedErrorHasTheTypeOfTheErrorThatItRemembers(t *testing.T) {
	t.Parallel()
	for want, remembered := range map[string]error{
		"*telemetry_test.declined": &guard.RememberedError{Err: fmt.Errorf("charge: %w", &declined{"4242"})},
		"*errors.errorString":      &guard.RememberedError{Err: errors.New("declined")},
		"*guard.RememberedError":   &guard.RememberedError{},
	} {
		l := newLab(t)
		ctx, call := l.call(t)
		failed := abandoned()
		failed.Status, failed.Dispatch = guard.StatusFailed, nil
		call.Event(ctx, guard.Event{Kind: guard.EventHit, Record: failed})
		call.End(guard.CallEnd{Outcome: guard.OutcomeReplayed, Err: remembered, Fence: 8, Attempt: 2})
		span := l.one(t, spanCall)
		wantLinks(t, span, "replayed "+otherTrace)
		wantStatus(t, span, codes.Error)
		wantAttrs(t, span, map[string]string{telemetry.AttrOutcome: "replayed", telemetry.AttrErrorType: want})
	}
}
