package telemetry_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// observedCall is what a guard tells of a call that runs its action.
func observedCall(ctx context.Context, op guard.OperationObserver, info guard.CallInfo, own *guard.Record) {
	ctx, call := op.Call(ctx, info)
	_ = call.TraceParent()
	observedSteps(ctx, call, own)
	call.End(guard.CallEnd{Outcome: guard.OutcomeExecuted, Fence: own.Fence, Attempt: own.Attempt})
}

// observedSteps are the phases and events of it.
func observedSteps(ctx context.Context, call guard.CallObserver, own *guard.Record) {
	_, reserve := call.Phase(ctx, guard.PhaseReserve)
	reserve.End(guard.PhaseEnd{Result: "acquired", Record: own})
	call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: own})
	_, renew := call.Phase(ctx, guard.PhaseRenew)
	renew.End(guard.PhaseEnd{Result: string(guard.RenewOK), Record: own})
	call.Event(ctx, guard.Event{Kind: guard.EventActionEnded, Duration: 1})
	_, replace := call.Phase(ctx, guard.PhaseReplace)
	replace.End(guard.PhaseEnd{Result: string(guard.ReplaceStored), Record: own})
	call.Event(ctx, guard.Event{Kind: guard.EventEnded, Record: own})
}

func benchOperation(tb testing.TB, provider trace.TracerProvider) guard.OperationObserver {
	tb.Helper()
	tel, err := telemetry.New(telemetry.Options{Registerer: prometheus.NewRegistry(), TracerProvider: provider})
	if err != nil {
		tb.Fatal(err)
	}
	return tel.Operation(guard.OperationInfo{Name: opName, Store: "memory", Lease: guard.DefaultLease})
}

func benchRecord() (guard.CallInfo, *guard.Record) {
	info := guard.CallInfo{Key: guard.Key{Operation: opName, Name: "order-1"}, OwnerLabel: "host/1"}
	return info, &guard.Record{Fence: 1, Attempt: 1}
}

func TestObserver_MetricsOfPhasesAndEventsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	op := benchOperation(t, nil)
	info, own := benchRecord()
	ctx, call := op.Call(t.Context(), info)
	defer call.End(guard.CallEnd{Outcome: guard.OutcomeExecuted})
	if got := testing.AllocsPerRun(100, func() { observedSteps(ctx, call, own) }); got != 0 {
		t.Errorf("%v allocations for the phases and events of a call, want none", got)
	}
}

func BenchmarkObserver(b *testing.B) {
	info, own := benchRecord()
	for _, bc := range []struct {
		name     string
		provider trace.TracerProvider
	}{
		{"metrics only", nil},
		{"metrics and unsampled spans", sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))},
		{"metrics and sampled spans", sdktrace.NewTracerProvider()},
	} {
		b.Run(bc.name, func(b *testing.B) {
			op := benchOperation(b, bc.provider)
			b.ReportAllocs()
			for b.Loop() {
				observedCall(b.Context(), op, info, own)
			}
		})
	}
}
