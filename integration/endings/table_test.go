package endings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

const (
	document    = "../../docs/temporal.md"
	tableHeader = "| ending | effects | the workflow got | record | metrics |"
	tableRule   = "|---|---|---|---|---|"
)

// table is that of the document.
type table struct {
	before, after string
	names         []string
	rows          map[string]string
}

func readTable(t *testing.T) *table {
	t.Helper()
	doc, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), tableHeader+"\n"+tableRule+"\n")
	if !ok {
		t.Fatalf("docs/temporal.md has no table\n%s\n%s", tableHeader, tableRule)
	}
	found := &table{before: before, rows: map[string]string{}}
	for strings.HasPrefix(rest, "|") {
		var row string
		row, rest, _ = strings.Cut(rest, "\n")
		name, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		found.names = append(found.names, name)
		found.rows[name] = row
	}
	found.after = rest
	return found
}

// write puts the rows that were measured into the document, and leaves the others.
func (d *table) write(t *testing.T, measured map[string]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString(d.before + tableHeader + "\n" + tableRule + "\n")
	for _, e := range endings() {
		row, ok := measured[e.name]
		if !ok {
			row = d.rows[e.name]
		}
		if row != "" {
			b.WriteString(row + "\n")
		}
	}
	b.WriteString(d.after)
	if err := os.WriteFile(document, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// row is what was left of a scenario.
func (l *lab) row(name string) string {
	l.t.Helper()
	return fmt.Sprintf("| %s | %d | %s | %s | %s |", name, l.effects(), l.got(), l.records(), l.moved())
}

func (l *lab) got() string {
	if got := l.site.board.of(l.id); len(got) > 0 {
		return strings.Join(got, ", then ")
	}
	return "nothing"
}

// records are the statuses of the keys, in the order in which they were reserved.
func (l *lab) records() string {
	l.t.Helper()
	var statuses []string
	for _, key := range l.store.seen() {
		loaded, err := l.store.Load(l.ctx, guard.LoadRequest{Key: key})
		if err != nil {
			l.t.Fatal(err)
		}
		status := "none"
		if loaded.Found {
			status = string(loaded.Record.Status)
		}
		statuses = append(statuses, status)
	}
	return strings.Join(statuses, ", ")
}

// moved are the counters that are not 0: the outcomes of the calls, then the others. How often
// a lease is renewed depends on the time it takes.
func (l *lab) moved() string {
	l.t.Helper()
	families, err := l.registry.Gather()
	if err != nil {
		l.t.Fatal(err)
	}
	var calls, others []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			operation := ""
			for _, label := range m.GetLabel() {
				switch {
				case label.GetName() == telemetry.LabelOperation:
					operation = label.GetValue()
				case label.GetValue() == "false": // not dispatched
				case label.GetValue() == "true":
					labels = append(labels, label.GetName())
				default:
					labels = append(labels, label.GetValue())
				}
			}
			count, kind := int(m.GetCounter().GetValue()), strings.Join(labels, " ")
			renewal := family.GetName() == telemetry.MetricLeaseRenewals && kind == string(guard.RenewOK)
			switch {
			case count == 0, operation != chargeActivity, renewal:
			case family.GetName() == telemetry.MetricCalls:
				calls = append(calls, fmt.Sprintf("%s %d", kind, count))
			default:
				others = append(others, counted(family.GetName(), kind, count))
			}
		}
	}
	slices.Sort(calls)
	return strings.Join(append([]string{strings.Join(calls, ", ")}, others...), "; ")
}

func counted(metric, kind string, count int) string {
	name := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(metric, "onceguard_"), "_total"), "_", " ")
	if kind != "" {
		name += " (" + strings.ReplaceAll(kind, "_", " ") + ")"
	}
	return fmt.Sprintf("%s %d", name, count)
}
