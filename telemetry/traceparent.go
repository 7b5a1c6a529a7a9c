package telemetry

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
)

// traceParentLength is that of version 00 of the W3C trace context:
// version, trace id, span id and flags, with a dash between them.
const traceParentLength = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// formatTraceParent returns the W3C trace context, or "" when there is none.
func formatTraceParent(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	traceID, spanID := sc.TraceID(), sc.SpanID()
	text := make([]byte, 0, traceParentLength) // stays on the stack
	text = append(hex.AppendEncode(append(text, "00-"...), traceID[:]), '-')
	text = append(hex.AppendEncode(text, spanID[:]), "-0"...)
	return string(append(text, '0'+byte(sc.TraceFlags()&trace.FlagsSampled)))
}

// parseTraceParent reads a W3C trace context from a record. Anybody may have
// written it: one that is broken is as good as none.
func parseTraceParent(s string) trace.SpanContext {
	if !hasTraceParentShape(s) {
		return trace.SpanContext{}
	}
	traceID, err := trace.TraceIDFromHex(s[3:35])
	if err != nil {
		return trace.SpanContext{}
	}
	spanID, err := trace.SpanIDFromHex(s[36:52])
	if err != nil {
		return trace.SpanContext{}
	}
	flags, err := hex.DecodeString(s[53:55])
	if err != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]) & trace.FlagsSampled, Remote: true,
	})
}

// hasTraceParentShape checks the version and the dashes. A later version may add
// fields behind those of version 00.
func hasTraceParentShape(s string) bool {
	if len(s) < traceParentLength || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version := s[:2]
	if _, err := hex.DecodeString(version); err != nil || version == "ff" {
		return false
	}
	return len(s) == traceParentLength || version != "00" && s[traceParentLength] == '-'
}

// ownerOf is the trace of the call that made a record.
func ownerOf(r *guard.Record) trace.SpanContext {
	if r == nil {
		return trace.SpanContext{}
	}
	return parseTraceParent(r.Owner.TraceParent)
}
