package tracing

import (
	"testing"
	"time"

	"go.temporal.io/sdk/interceptor"
)

func TestCase_O5_GuardSpansAreChildrenOfTheSDKsRunActivitySpan(t *testing.T) {
	t.Parallel()
	l := newLab(t, setup{tracing: onClient})
	l.start(l.pay)
	ctx, span := l.provider.Tracer("application").Start(t.Context(), "request")
	l.end(l.begin(ctx, 1, time.Minute))
	span.End()
	l.wantOneCharge()
	l.want(`
		request
		  StartWorkflow:charge
		    RunWorkflow:charge
		      StartActivity:Charge
		        RunActivity:Charge
		          guard Charge = executed
		            guard.reserve
		            pay
		            guard.replace
	`)
}

func TestOrder_ThePluginGoesBehindTracingThatIsOnTheWorker(t *testing.T) {
	t.Parallel()
	l := newLab(t, setup{tracing: onWorker})
	l.start(l.pay)
	l.end(l.begin(t.Context(), 1, time.Minute))
	l.want(`
		RunWorkflow:charge
		  StartActivity:Charge
		    RunActivity:Charge
		      guard Charge = executed
		        guard.reserve
		        pay
		        guard.replace
	`)
}

func TestCase_O5_WithoutTheSDKsTracingTheGuardSpansOfAnActivityStandAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, setup{tracing: nowhere})
	l.start(l.pay)
	l.end(l.begin(t.Context(), 2, time.Minute))
	l.wantOneCharge()
	l.want(`
		guard Charge = executed
		  guard.reserve
		  pay
		  guard.replace
		guard Charge = replayed
		  guard.reserve
	`)
	first, second := l.named("guard Charge")[0], l.named("guard Charge")[1]
	if first.SpanContext.TraceID() == second.SpanContext.TraceID() {
		t.Error("the two calls are in one trace")
	}
	wantLink(t, second, first, "replayed")
}

func TestOrder_TheGuardInFrontOfTracingCutsTheTraceAndAReplayHasNoRunActivity(t *testing.T) {
	t.Parallel()
	l := newLab(t, setup{tracing: behindGuard, between: []interceptor.WorkerInterceptor{&losesReplies{}}})
	l.start(l.pay)
	l.end(l.begin(t.Context(), 1, time.Minute))
	l.wantOneCharge()
	l.want(`
		RunWorkflow:charge
		  StartActivity:Charge
		guard Charge = executed
		  RunActivity:Charge
		    pay
		  guard.reserve
		  guard.replace
		guard Charge = replayed
		  guard.reserve
	`)
	calls := l.named("guard Charge")
	wantLink(t, calls[1], calls[0], "replayed")
	// Its time is that at which the server started the attempt, in whatever place.
	if attempt := l.named("RunActivity:Charge")[0]; !attempt.StartTime.Before(calls[0].StartTime) {
		t.Errorf("RunActivity starts at %s, the guard around it at %s", attempt.StartTime, calls[0].StartTime)
	}
}
