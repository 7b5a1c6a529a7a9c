package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
)

const traceParentField = "traceparent"

// formatTraceParent returns the W3C trace context, or "" when there is none.
func formatTraceParent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" +
		(sc.TraceFlags() & trace.FlagsSampled).String()
}

// parseTraceParent reads a W3C trace context from a record. Anybody may have
// written it: one that is broken is as good as none.
func parseTraceParent(s string) trace.SpanContext {
	if s == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{traceParentField: s}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	return trace.SpanContextFromContext(ctx)
}

// ownerOf is the trace of the call that made a record.
func ownerOf(r *guard.Record) trace.SpanContext {
	if r == nil {
		return trace.SpanContext{}
	}
	return parseTraceParent(r.Owner.TraceParent)
}
