package tracing

import (
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/telemetry"
)

// tree draws all spans below their parents, one a line, two spaces a level, each level in the order
// of time. A guard's call has its outcome behind it.
func tree(spans []tracetest.SpanStub) string {
	known := map[trace.SpanID]bool{}
	for _, span := range spans {
		known[span.SpanContext.SpanID()] = true
	}
	below := map[trace.SpanID][]tracetest.SpanStub{}
	for _, span := range spans {
		parent := span.Parent.SpanID()
		if !known[parent] {
			parent = trace.SpanID{}
		}
		below[parent] = append(below[parent], span)
	}
	var b strings.Builder
	var draw func(trace.SpanID, string)
	draw = func(parent trace.SpanID, indent string) {
		level := below[parent]
		slices.SortStableFunc(level, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
		for _, span := range level {
			b.WriteString(indent + span.Name)
			if outcome := attribute(span, telemetry.AttrOutcome); outcome != "" {
				b.WriteString(" = " + outcome)
			}
			b.WriteByte('\n')
			draw(span.SpanContext.SpanID(), indent+"  ")
		}
	}
	draw(trace.SpanID{}, "")
	return b.String()
}

// attribute is an attribute's value as text, "" without one.
func attribute(span tracetest.SpanStub, key string) string {
	for _, a := range span.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// want compares the tree of the lab's spans, leaving out renewals: how many there are is a
// matter of time.
func (l *lab) want(drawing string) {
	l.t.Helper()
	spans := slices.DeleteFunc(slices.Clone(l.spans.GetSpans()), func(s tracetest.SpanStub) bool {
		return s.Name == telemetry.SpanRenew
	})
	got := tree(spans)
	want := strings.TrimPrefix(strings.ReplaceAll(drawing, "\t", ""), "\n")
	if got != want {
		l.t.Errorf("the spans are\n%swant\n%s", got, want)
	}
}

// wantLink wants that one span links to another, as what.
func wantLink(t *testing.T, from, to tracetest.SpanStub, relation string) {
	t.Helper()
	for _, link := range from.Links {
		for _, a := range link.Attributes {
			if string(a.Key) == telemetry.AttrLink && a.Value.AsString() == relation && link.SpanContext.SpanID() == to.SpanContext.SpanID() {
				return
			}
		}
	}
	t.Errorf("%q has links %+v, want one to the %q before: %s", from.Name, from.Links, to.Name, relation)
}
