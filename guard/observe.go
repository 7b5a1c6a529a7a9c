package guard

import (
	"context"
	"errors"
)

// ErrActionUnwound is the Err of an [EventActionEnded] whose action panicked or
// called [runtime.Goexit]. No call returns it.
var ErrActionUnwound = errors.New("onceguard: the action panicked or exited its goroutine")

// noop observes nothing.
type noop struct{}

func (noop) Operation(OperationInfo) OperationObserver { return noop{} }

func (noop) Call(ctx context.Context, _ CallInfo) (context.Context, CallObserver) {
	return ctx, noop{}
}
func (noop) TraceParent() string { return "" }
func (noop) Phase(ctx context.Context, _ Phase) (context.Context, PhaseObserver) {
	return ctx, noopPhase{}
}
func (noop) Event(context.Context, Event) {}
func (noop) End(CallEnd)                  {}

type noopPhase struct{}

func (noopPhase) End(PhaseEnd) {}

// contain is deferred around every call of an observer: what an observer breaks
// must not change what happens to a payment.
func contain() { _ = recover() }

func observeOperation(o Observer, info OperationInfo) (out OperationObserver) {
	out = noop{}
	if o == nil {
		return out
	}
	defer contain()
	if got := o.Operation(info); got != nil {
		out = got
	}
	return out
}

func observeCall(ctx context.Context, o OperationObserver, info CallInfo) (outCtx context.Context, out observed) {
	outCtx, out = ctx, observed{noop{}}
	defer contain()
	gotCtx, got := o.Call(ctx, info)
	if gotCtx != nil && got != nil {
		outCtx, out = gotCtx, observed{got}
	}
	return outCtx, out
}

// observed is a CallObserver whose panics are contained.
type observed struct{ call CallObserver }

func (o observed) traceParent() (tp string) {
	defer contain()
	return o.call.TraceParent()
}

func (o observed) phase(ctx context.Context, p Phase) (outCtx context.Context, out observedPhase) {
	outCtx, out = ctx, observedPhase{noopPhase{}}
	defer contain()
	gotCtx, got := o.call.Phase(ctx, p)
	if gotCtx != nil && got != nil {
		outCtx, out = gotCtx, observedPhase{got}
	}
	return outCtx, out
}

func (o observed) event(ctx context.Context, e Event) {
	defer contain()
	o.call.Event(ctx, e)
}

func (o observed) end(e CallEnd) {
	defer contain()
	o.call.End(e)
}

type observedPhase struct{ phase PhaseObserver }

func (o observedPhase) end(e PhaseEnd) {
	defer contain()
	o.phase.End(e)
}
