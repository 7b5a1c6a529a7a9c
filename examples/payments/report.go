package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// report is what came of the scenarios.
type report []row

// row is one scenario, played twice.
type row struct {
	title   string
	without *part
	with    *part
}

// judge prints the report. The demo succeeds only when it shows both: the double
// charge without the guard and the single one with it.
func (d *demo) judge(r report) error {
	d.console.title("the result")
	d.console.block(r.chargesTable())
	d.console.block("")
	d.console.block(r.countersTable())
	failures := r.failures()
	for _, f := range failures {
		d.console.say("FAILED: %s", f)
	}
	if len(failures) > 0 {
		return errFailed
	}
	d.console.block("\n" + closing)
	return nil
}

// closing says what the demo rests on.
const closing = `Every order was charged once with the guard, and more than once without it.

What this rests on: the worker that died right after the charge left no result, only a
reservation. Its successor asked the provider before it charged, and that is as good as the
provider's answer. This provider refuses the requests of the dead, whose fences are smaller, so
that "no charge" stays true. One that cannot be asked leaves the key held: nobody charges until
somebody has found out. CheckoutAndReconcile in examples/payments shows that.`

// failures are the expectations that did not come true.
func (r report) failures() []string {
	var failures []string
	fail := func(format string, args ...any) { failures = append(failures, fmt.Sprintf(format, args...)) }
	for _, row := range r {
		if n := len(row.without.charges); n < 2 {
			fail("%s, without the guard: %s, expected a double charge", row.title, plural(n, "charge"))
		}
		if n := len(row.with.charges); n != 1 {
			fail("%s, with the guard: %s, expected exactly one", row.title, plural(n, "charge"))
		} else if !row.with.sameReceipt() {
			fail("%s, with the guard: not every workflow returned the receipt of the charge: %v", row.title, row.with.receipts)
		}
	}
	return failures
}

// chargesTable are the charges in the provider's ledger.
func (r report) chargesTable() string {
	t := newTable("charges per order, in the provider's ledger", "without the guard", "with the guard")
	for _, row := range r {
		t.AppendRow(table.Row{row.title, len(row.without.charges), len(row.with.charges)})
	}
	return t.Render()
}

// countersTable are the counters behind the guarded column.
func (r report) countersTable() string {
	header := []string{"counters of the guarded workers"}
	for _, row := range r {
		header = append(header, row.with.scenario.name)
	}
	t := newTable(header...)
	for _, line := range counterLines() {
		cells, sum := table.Row{line.title}, 0
		for _, row := range r {
			n := row.with.counters[line.series]
			cells, sum = append(cells, n), sum+n
		}
		if sum > 0 || line.always {
			t.AppendRow(cells)
		}
	}
	return t.Render()
}

// counterLine is a line of the counters table.
type counterLine struct {
	title, series string
	always        bool // also when it is zero
}

func counterLines() []counterLine {
	var all []counterLine
	for _, outcome := range guard.Outcomes() {
		all = append(all, counterLine{
			title:  "calls " + string(outcome),
			series: labelled(telemetry.MetricCalls, string(outcome)),
			always: outcome == guard.OutcomeExecuted || outcome == guard.OutcomeReplayed,
		})
	}
	return append(all,
		counterLine{"hits", telemetry.MetricHits, true},
		counterLine{"collisions", telemetry.MetricCollisions, true},
		counterLine{"takeovers", telemetry.MetricTakeovers, true},
		counterLine{"storage errors", telemetry.MetricStorageErrors, true},
		counterLine{"lease renewals", labelled(telemetry.MetricLeaseRenewals, string(guard.RenewOK)), true},
		counterLine{"leases lost", telemetry.MetricLeasesLost, false},
		counterLine{"stale results", telemetry.MetricStaleResults, false},
	)
}

func newTable(header ...string) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	cells := table.Row{}
	columns := []table.ColumnConfig{{Number: 1, WidthMin: 44}}
	for i, h := range header {
		cells = append(cells, strings.TrimSpace(h))
		if i > 0 {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight, WidthMin: 17})
		}
	}
	t.AppendHeader(cells)
	t.SetColumnConfigs(columns)
	return t
}
