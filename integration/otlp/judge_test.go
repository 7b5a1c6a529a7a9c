//go:build unix

package otlp

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/onceguard/onceguard/telemetry"
)

// documented is what the package comment of telemetry says about attributes and links.
type documented struct {
	attributes map[string]attributeRow
	links      map[string][]string // the spans, "call" or the name, that have a link of a relation

	mu   sync.Mutex
	seen map[string]bool // attributes and, with a prefix, links
}

type attributeRow struct{ kind, on string } // on is all, call, phases or both of these

const linkPrefix = "link "

var (
	attributeLine = regexp.MustCompile(`^//\t(onceguard\.\S+|error\.type) +(string|int|double|bool) +(all|call, phases|call|phases)(?:;|,|$)`)
	linkLine      = regexp.MustCompile(`^//\t([a-z_]+|) +on (the call|guard\.[a-z]+) `)
)

// readDocumentation parses the tables of the package comment.
func readDocumentation(t *testing.T) *documented {
	t.Helper()
	text, err := os.ReadFile("../../telemetry/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	d := &documented{attributes: map[string]attributeRow{}, links: map[string][]string{}, seen: map[string]bool{}}
	relation := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := attributeLine.FindStringSubmatch(line); m != nil {
			d.attributes[m[1]] = attributeRow{m[2], m[3]}
		}
		if m := linkLine.FindStringSubmatch(line); m != nil {
			if m[1] != "" {
				relation = m[1]
			}
			d.links[relation] = append(d.links[relation], strings.TrimPrefix(m[2], "the "))
		}
	}
	if len(d.attributes) != 16 || len(d.links) != 7 {
		t.Fatalf("the package comment has the attributes %v and the links %v, want 16 and 7", d.attributes, d.links)
	}
	return d
}

// judge compares every span of the guard that was exported with what is documented.
func (d *documented) judge(l *lab) {
	l.t.Helper()
	spans := l.sink.all()
	byID := map[string]span{}
	for _, s := range spans {
		byID[id(s.GetSpanId())] = s
	}
	for _, s := range spans {
		if s.scope == applicationID {
			continue
		}
		if fault := d.fault(s, byID); fault != "" {
			l.t.Errorf("%s of %s: %s\n%v", s.GetName(), s.process, fault, s.Span)
		}
	}
}

// isCall tells a call's span from that of a phase.
func (s span) isCall() bool { return strings.HasPrefix(s.GetName(), telemetry.SpanCallPrefix) }

func (d *documented) fault(s span, byID map[string]span) string {
	parent, parentKnown := byID[id(s.GetParentSpanId())]
	switch {
	case s.scope != telemetry.ScopeName:
		return "is of the scope " + s.scope
	case s.GetKind() != tracepb.Span_SPAN_KIND_INTERNAL:
		return "is " + s.GetKind().String()
	case s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano():
		return "ends before it starts"
	case len(s.GetEvents()) != 0, s.GetDroppedAttributesCount() != 0, s.GetDroppedLinksCount() != 0:
		return "has events, or has lost something"
	case !s.isCall() && len(s.GetParentSpanId()) == 0:
		return "is a phase without a call"
	case parentKnown && !slices.Equal(parent.GetTraceId(), s.GetTraceId()):
		return "has a parent in another trace"
	case parentKnown && parent.scope == telemetry.ScopeName && s.isCall():
		return "is a call below " + parent.GetName()
	}
	if fault := s.statusFault(); fault != "" {
		return fault
	}
	for _, a := range s.GetAttributes() {
		if fault := d.attributeFault(s, a); fault != "" {
			return fault
		}
	}
	return d.linksFault(s)
}

// statusFault holds the status to the rule: Error for a call that has an error.type and whose caller did
// not leave by itself.
func (s span) statusFault() string {
	want := tracepb.Status_STATUS_CODE_UNSET
	left := slices.Contains([]string{"canceled", "interrupted", "pending"}, s.text(telemetry.AttrOutcome))
	if s.isCall() && s.text(telemetry.AttrErrorType) != "" && !left {
		want = tracepb.Status_STATUS_CODE_ERROR
	}
	if got := s.GetStatus().GetCode(); got != want {
		return fmt.Sprintf("has status %s, want %s", got, want)
	}
	return ""
}

func (d *documented) attributeFault(s span, a *commonpb.KeyValue) string {
	row, ok := d.attributes[a.GetKey()]
	if !ok {
		return a.GetKey() + " is not in the table of attributes"
	}
	d.see(a.GetKey())
	if got := kindOf(a.GetValue()); got != row.kind {
		return fmt.Sprintf("%s is %s, the table says %s", a.GetKey(), got, row.kind)
	}
	if row.on == "call" && !s.isCall() || row.on == "phases" && s.isCall() {
		return fmt.Sprintf("%s is for %s", a.GetKey(), row.on)
	}
	return ""
}

func (d *documented) linksFault(s span) string {
	on := s.GetName()
	if s.isCall() {
		on = "call"
	}
	for _, link := range s.GetLinks() {
		relation := attributeOf(link.GetAttributes(), telemetry.AttrLink)
		if len(link.GetAttributes()) != 1 || kindOf(relation) != "string" {
			return fmt.Sprintf("has a link with %v, want a string %s", link.GetAttributes(), telemetry.AttrLink)
		}
		if !slices.Contains(d.links[relation.GetStringValue()], on) {
			return fmt.Sprintf("has a link %s, which is for %q", relation.GetStringValue(), d.links[relation.GetStringValue()])
		}
		d.see(linkPrefix + relation.GetStringValue())
	}
	return ""
}

// valueOf is an attribute's value: a string, an int64, a float64, a bool, or for other types what was exported.
func valueOf(v *commonpb.AnyValue) any {
	switch x := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return x.StringValue
	case *commonpb.AnyValue_IntValue:
		return x.IntValue
	case *commonpb.AnyValue_DoubleValue:
		return x.DoubleValue
	case *commonpb.AnyValue_BoolValue:
		return x.BoolValue
	default:
		return x
	}
}

// kindOf is the type of an attribute's value in the words of the table.
func kindOf(v *commonpb.AnyValue) string {
	switch kind := fmt.Sprintf("%T", valueOf(v)); kind {
	case "int64":
		return "int"
	case "float64":
		return "double"
	default:
		return kind
	}
}

func (d *documented) see(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[what] = true
}

// unseen are the attributes and links that are documented and that no span had.
func (d *documented) unseen() (unseen []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.attributes {
		if !d.seen[name] {
			unseen = append(unseen, name)
		}
	}
	for relation := range d.links {
		if !d.seen[linkPrefix+relation] {
			unseen = append(unseen, linkPrefix+relation)
		}
	}
	slices.Sort(unseen)
	return unseen
}
