package telemetry

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
)

// spanOptions are made once per operation. A sampler sees the attributes in them.
func spanOptions(op guard.OperationInfo) (call, phase []trace.SpanStartOption) {
	kind := trace.WithSpanKind(trace.SpanKindInternal)
	name, store := attribute.String(AttrOperation, op.Name), attribute.String(AttrStore, op.Store)
	call = []trace.SpanStartOption{
		kind, trace.WithAttributes(name, store, attribute.Float64(AttrLease, op.Lease.Seconds())),
	}
	return call, []trace.SpanStartOption{kind, trace.WithAttributes(name, store)}
}

// startSpan starts the span of the call. Without a tracer the call belongs to
// the trace that is in the context.
func (c *call) startSpan(ctx context.Context) context.Context {
	if c.op.tracer == nil {
		c.spanContext = trace.SpanContextFromContext(ctx)
		return ctx
	}
	ctx, span := c.op.tracer.Start(ctx, c.op.spanName, c.op.callOptions...)
	c.spanContext = span.SpanContext()
	if !span.IsRecording() {
		span.End()
		return ctx
	}
	c.span = span
	span.SetAttributes(attribute.String(AttrKeyHash, c.info.KeyHash()))
	return ctx
}

// traceEvent says on the call's span what happened, and links it to the trace of
// the record that it concerns.
func (c *call) traceEvent(e guard.Event) {
	if c.span == nil {
		return
	}
	switch e.Kind {
	case guard.EventAcquired:
		c.tookOver(e)
	case guard.EventHit:
		link(c.span, ownerOf(e.Record), LinkReplayed)
	case guard.EventCollision:
		c.found = ownerOf(e.Record)
	case guard.EventUnknown:
		link(c.span, suspectOf(e.Record), LinkUnknown)
	case guard.EventMismatch:
		link(c.span, ownerOf(e.Record), LinkMismatched)
	case guard.EventLost:
		c.span.SetAttributes(attribute.String(AttrLostReason, e.Reason))
	case guard.EventStale:
		c.span.SetAttributes(attribute.Bool(AttrStale, true))
	case guard.EventUnguarded:
		c.span.SetAttributes(attribute.String(AttrUnguardedReason, e.Reason))
	case guard.EventUnstored:
		c.span.SetAttributes(attribute.String(AttrUnstoredReason, e.Reason))
	case guard.EventHeld:
		c.span.SetAttributes(attribute.String(AttrHeldReason, e.Reason))
	case guard.EventEnded, guard.EventStorageError, guard.EventActionEnded: // phases and the outcome tell
	}
}

func (c *call) tookOver(e guard.Event) {
	if e.Record == nil || e.Record.TookOver == nil {
		return
	}
	c.span.SetAttributes(attribute.Bool(AttrTakeover, true))
	last := parseTraceParent(e.Record.TookOver.Owner.TraceParent)
	link(c.span, last, LinkTookOver)
	if c.earlier == nil {
		return
	}
	c.span.SetAttributes(attribute.Bool(AttrDispatched, true))
	if first := c.earlierTrace(); !first.Equal(last) {
		link(c.span, first, LinkDispatched)
	}
}

func (c *call) endSpan(end guard.CallEnd) {
	if c.span == nil {
		return
	}
	defer c.span.End()
	if !c.waited {
		link(c.span, c.found, LinkInFlight)
	}
	c.span.SetAttributes(attribute.String(AttrOutcome, string(end.Outcome)))
	if end.Fence != 0 {
		c.span.SetAttributes(attribute.Int64(AttrFence, end.Fence), attribute.Int(AttrAttempt, end.Attempt))
	}
	if end.Err == nil {
		return
	}
	c.span.SetAttributes(attribute.String(AttrErrorType, callErrorType(end)))
	if !nobodyFailed(end) {
		c.span.SetStatus(codes.Error, string(end.Outcome))
	}
}

// nobodyFailed reports an error that is no failure: the caller canceled, before the
// action or during it, or the action left its result for later.
func nobodyFailed(end guard.CallEnd) bool {
	return end.Outcome == guard.OutcomePending || end.Outcome == guard.OutcomeInterrupted ||
		end.Outcome == guard.OutcomeCanceled && errors.Is(end.Err, context.Canceled)
}

// startSpan starts the span of a phase, below a call's span that is recorded.
func (p *phase) startSpan(ctx context.Context) context.Context {
	p.span, p.thinned = nil, time.Time{}
	if p.call.span == nil {
		return ctx
	}
	if p.phase() == guard.PhaseRenew && p.call.op.thinRenewals > 0 {
		p.thinned = time.Now()
		return ctx
	}
	ctx, p.span = p.call.op.tracer.Start(ctx, spanName(p.phase()), p.call.op.phaseOptions...)
	if p.phase() == guard.PhaseWait {
		link(p.span, p.call.found, LinkWaitedFor)
		p.call.waited = true
	}
	return ctx
}

// endSpan leaves the status alone: whether a failed phase fails the call is for
// the call's span to say.
func (p *phase) endSpan(end guard.PhaseEnd) {
	if !p.thinned.IsZero() {
		p.startThinned(end)
	}
	if p.span == nil {
		return
	}
	defer p.span.End()
	if last := ownerOf(end.Record); p.phase() == guard.PhaseWait && !last.Equal(p.call.found) {
		link(p.span, last, LinkWaitedFor) // the key went from one owner to another meanwhile
	}
	if p.phase() == guard.PhaseRecover {
		link(p.span, p.call.earlierTrace(), LinkDispatched)
	}
	if end.Result != "" {
		p.span.SetAttributes(attribute.String(AttrPhaseResult, end.Result))
	}
	if end.Err != nil {
		p.span.SetAttributes(attribute.String(AttrErrorType, phaseErrorType(end)))
	}
}

// startThinned starts the span of a renewal that has ended, if it is worth one.
func (p *phase) startThinned(end guard.PhaseEnd) {
	fine := end.Err == nil && end.Result == string(guard.RenewOK)
	if fine && time.Since(p.thinned) < p.call.op.thinRenewals {
		return
	}
	ctx := trace.ContextWithSpan(context.Background(), p.call.span)
	_, p.span = p.call.op.tracer.Start(ctx, SpanRenew, append(slices.Clip(p.call.op.phaseOptions), trace.WithTimestamp(p.thinned))...)
}

func spanName(p guard.Phase) string {
	switch p {
	case guard.PhaseReserve:
		return SpanReserve
	case guard.PhaseWait:
		return SpanWait
	case guard.PhaseRenew:
		return SpanRenew
	case guard.PhaseReplace:
		return SpanReplace
	case guard.PhaseRelease:
		return SpanRelease
	case guard.PhaseRecover:
		return SpanRecover
	case guard.PhaseLoad, guard.PhaseNotify: // part of a wait
	case guard.PhaseErase, guard.PhaseResolve, guard.PhaseList: // no part of a call
	}
	return "guard." + string(p)
}

// link adds a link, unless there is no trace to link to.
func link(span trace.Span, to trace.SpanContext, relation string) {
	if to.IsValid() {
		span.AddLink(trace.Link{
			SpanContext: to,
			Attributes:  []attribute.KeyValue{attribute.String(AttrLink, relation)},
		})
	}
}
