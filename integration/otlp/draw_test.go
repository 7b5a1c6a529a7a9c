//go:build unix

package otlp

import (
	"fmt"
	"slices"
	"strings"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/onceguard/onceguard/telemetry"
)

// names are those of calls by their trace and span, as their processes have told them: also of calls whose
// spans nobody has.
func (l *lab) names() map[string]string {
	names := map[string]string{}
	for _, p := range l.processes {
		p.mu.Lock()
		for _, told := range p.tales {
			if told.What == "began" || told.What == "asked" {
				names[told.Trace+"/"+told.Span] = told.Call
			}
		}
		p.mu.Unlock()
	}
	return names
}

// draw draws all spans that are wanted below their parents, one a line, each level in the order of time,
// without renewals: how many there are is a matter of time. Below a call are its
// attributes in words, behind each span its links, as the name of the call that they lead to.
func (l *lab) draw(wanted func(span) bool) string {
	spans := slices.DeleteFunc(l.sink.all(), func(s span) bool {
		return s.GetName() == telemetry.SpanRenew || wanted != nil && !wanted(s)
	})
	names := l.names()
	known := map[string]bool{}
	for _, s := range spans {
		known[id(s.GetSpanId())] = true
	}
	var b strings.Builder
	var draw func(parent, indent string)
	draw = func(parent, indent string) {
		for _, s := range spans {
			above := id(s.GetParentSpanId())
			if !known[above] {
				above = ""
			}
			if above == parent {
				b.WriteString(indent + s.words(names) + "\n")
				draw(id(s.GetSpanId()), indent+"  ")
			}
		}
	}
	draw("", "")
	return b.String()
}

// words are what a span says of itself.
func (s span) words(names map[string]string) string {
	words := []string{s.GetName()}
	if result := s.text(telemetry.AttrOutcome) + s.text(telemetry.AttrPhaseResult); result != "" {
		words[0] += " = " + result
	}
	for _, a := range s.GetAttributes() {
		switch short := strings.TrimPrefix(a.GetKey(), "onceguard."); a.GetKey() {
		case telemetry.AttrTakeover, telemetry.AttrDispatched, telemetry.AttrStale:
			words = append(words, fmt.Sprintf("%s %t", short, a.GetValue().GetBoolValue()))
		case telemetry.AttrLostReason, telemetry.AttrUnguardedReason, telemetry.AttrUnstoredReason,
			telemetry.AttrHeldReason, telemetry.AttrErrorType:
			words = append(words, short+" "+a.GetValue().GetStringValue())
		}
	}
	for _, link := range s.GetLinks() {
		to := id(link.GetTraceId()) + "/" + id(link.GetSpanId())
		if name, ok := names[to]; ok {
			to = name
		}
		words = append(words, attributeOf(link.GetAttributes(), telemetry.AttrLink).GetStringValue()+" by "+to)
	}
	if s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		words = append(words, "ERROR")
	}
	return strings.Join(words, ", ")
}

// want compares the spans of a call's trace with a drawing.
func (l *lab) want(call, drawing string) {
	l.t.Helper()
	of := l.traceOf(call)
	got := l.draw(func(s span) bool { return id(s.GetTraceId()) == of })
	want := strings.TrimPrefix(strings.ReplaceAll(drawing, "\t", ""), "\n")
	if got != want {
		l.t.Errorf("the spans of %s are\n%swant\n%s", call, got, want)
	}
}

// traceOf is the trace that a call is in, as its process has told it.
func (l *lab) traceOf(call string) string {
	l.t.Helper()
	for _, p := range l.processes {
		for _, what := range []string{"starts", "began"} {
			if told, ok := p.told(call, what); ok {
				return told.Trace
			}
		}
	}
	l.t.Fatalf("nobody has told of %s", call)
	return ""
}

// callSpan is the exported span of the guard's call of that name.
func (l *lab) callSpan(call string) span {
	l.t.Helper()
	of := l.traceOf(call)
	for _, s := range l.sink.all() {
		if s.isCall() && id(s.GetTraceId()) == of {
			return s
		}
	}
	l.t.Fatalf("no span of the call %s:\n%s", call, l.draw(nil))
	return span{}
}
