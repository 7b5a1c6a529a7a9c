package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
)

// operation observes the calls of one operation.
type operation struct {
	name         string
	series       *series // nil without metrics
	tracer       trace.Tracer
	logger       *slog.Logger
	behind       *behind // for lines that must not wait for the logger
	storms       storms
	thinRenewals time.Duration // only failed ones and those that take as long get a span, 0 for all
	spanName     string
	callOptions  []trace.SpanStartOption
	phaseOptions []trace.SpanStartOption
	calls        callBlocks
	made         time.Time
}

// Call implements [guard.OperationObserver].
func (o *operation) Call(ctx context.Context, info guard.CallInfo) (context.Context, guard.CallObserver) {
	c := o.calls.next()
	c.op, c.info = o, info
	return c.startSpan(ctx), c
}

// call observes one call. The fields that are set after its start are atomic, or
// belong to the goroutine of the caller.
type call struct {
	op          *operation
	info        guard.CallInfo
	span        trace.Span // nil when there is nothing to record
	spanContext trace.SpanContext

	sampledContext atomic.Pointer[context.Context] // see sampled

	found   trace.SpanContext // the other owner's, from a collision on
	waited  bool              // and a wait span links to it
	earlier *guard.Dispatch   // what another owner may have done, by the record that this call acquired

	fence     atomic.Int64 // once acquired, for the logs
	leaseFrom atomic.Int64 // when the lease began, as elapsed time
	lease     heldLease    // guarded by its leaseAge

	// phases are where phases are observed without an allocation: the caller's and the
	// renewer's. More than that at once get one of their own.
	phases [2]phase
}

// elapsed is the time since the operation was made, on the monotonic clock: reading that alone costs
// half of reading the time.
func (c *call) elapsed() time.Duration { return time.Since(c.op.made) }

// TraceParent implements [guard.CallObserver].
func (c *call) TraceParent() string { return formatTraceParent(c.spanContext) }

// Event implements [guard.CallObserver].
func (c *call) Event(ctx context.Context, e guard.Event) {
	if e.Kind == guard.EventAcquired && e.Record != nil {
		c.fence.Store(e.Record.Fence)
		c.learn(e.Record)
	}
	c.op.series.event(c, e)
	c.traceEvent(e)
	c.logEvent(ctx, e)
}

// End implements [guard.CallObserver].
func (c *call) End(end guard.CallEnd) {
	c.op.series.callEnded(c, end)
	c.endSpan(end)
	c.logEnd(end)
}

// Phase implements [guard.CallObserver].
func (c *call) Phase(ctx context.Context, name guard.Phase) (context.Context, guard.PhaseObserver) {
	i := phaseIndex(name)
	if i < 0 {
		return ctx, unknownPhase{}
	}
	p := c.freePhase()
	p.call, p.name, p.index, p.began = c, name, i, c.elapsed()
	ctx = p.startSpan(ctx) // a tracer that panics leaves no gauge up
	c.op.series.phaseBegan(c, name)
	return ctx, p
}

func (c *call) freePhase() *phase {
	for i := range c.phases {
		if c.phases[i].busy.CompareAndSwap(false, true) {
			return &c.phases[i]
		}
	}
	return new(phase)
}

// phase observes one phase.
type phase struct {
	busy  atomic.Bool
	call  *call
	name  guard.Phase
	index int // of name, in timedPhases
	began time.Duration
	span  trace.Span // nil when there is nothing to record

	thinned time.Time // when a renewal began whose span is made at its end, if at all
}

func (p *phase) phase() guard.Phase { return p.name }

// End implements [guard.PhaseObserver].
func (p *phase) End(end guard.PhaseEnd) {
	if p.phase() == guard.PhaseRecover {
		p.call.learn(end.Record)
	}
	p.call.op.series.phaseEnded(p, end)
	p.endSpan(end)
	p.busy.Store(false)
}

// unknownPhase is a phase of a later guard.
type unknownPhase struct{}

func (unknownPhase) End(guard.PhaseEnd) {}
