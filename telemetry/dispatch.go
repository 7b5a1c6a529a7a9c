package telemetry

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
)

// evidence is that of another owner in a record: its effect may have happened. A
// record's own dispatch is none.
func evidence(r *guard.Record) *guard.Dispatch {
	if r == nil || r.Dispatch == nil || r.Dispatch.Owner.Token == r.Owner.Token {
		return nil
	}
	return r.Dispatch
}

// learn keeps the evidence that the call's own record carries.
func (c *call) learn(own *guard.Record) {
	if found := evidence(own); found != nil {
		kept := *found
		c.earlier = &kept
	}
}

// earlierTrace is the trace of the evidence.
func (c *call) earlierTrace() trace.SpanContext {
	if c.earlier == nil {
		return trace.SpanContext{}
	}
	return parseTraceParent(c.earlier.Owner.TraceParent)
}

// suspect is who may have had the effect that a held record is about, and with which
// fence.
func suspect(held *guard.Record) (guard.Owner, int64) {
	if d := held.Dispatch; d != nil {
		return d.Owner, d.Fence
	}
	return held.Owner, held.Fence
}

// suspectOf is the trace of the suspect.
func suspectOf(held *guard.Record) trace.SpanContext {
	if held == nil {
		return trace.SpanContext{}
	}
	owner, _ := suspect(held)
	return parseTraceParent(owner.TraceParent)
}
