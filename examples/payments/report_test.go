package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// played is a part with so many charges, whose workflows returned the first.
func played(charges int) *part {
	p := &part{scenario: scenario{name: "kill"}, counters: counters{}}
	for n := range charges {
		p.charges = append(p.charges, Receipt{Charge: fmt.Sprintf("charge-%d", n)})
	}
	if charges > 0 {
		p.receipts = []Receipt{p.charges[0], p.charges[0]}
	}
	return p
}

func TestReport_FailsUnlessTheDoubleChargeShowsAndTheGuardStopsIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		without, with int
		failures      []string
	}{
		{without: 2, with: 1},
		{without: 10, with: 1},
		{without: 1, with: 1, failures: []string{"without the guard: 1 charge, expected a double charge"}},
		{without: 2, with: 2, failures: []string{"with the guard: 2 charges, expected exactly one"}},
		{without: 2, with: 0, failures: []string{"with the guard: 0 charges, expected exactly one"}},
		{without: 0, with: 10, failures: []string{"without the guard: 0 charges", "with the guard: 10 charges"}},
	} {
		got := report{{title: "mishap", without: played(test.without), with: played(test.with)}}.failures()
		ok := len(got) == len(test.failures)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.Contains(got[i], "mishap, "+test.failures[i])
		}
		if !ok {
			t.Errorf("%d without, %d with: failures %q, want %q", test.without, test.with, got, test.failures)
		}
	}
}

func TestReport_FailsWhenAWorkflowGotAnotherReceipt(t *testing.T) {
	t.Parallel()
	with := played(1)
	with.receipts[1].Charge = "charge-of-nobody"
	failures := report{{title: "mishap", without: played(2), with: with}}.failures()
	if len(failures) != 1 || !strings.Contains(failures[0], "not every workflow returned the receipt") {
		t.Errorf("failures %q, want that of the receipt", failures)
	}
}

func TestReport_ShowsChargesAndCounters(t *testing.T) {
	t.Parallel()
	r := report{{title: "mishap", without: played(3), with: played(1)}}
	r[0].with.counters = counters{
		telemetry.MetricHits: 8,
		labelled(telemetry.MetricCalls, string(guard.OutcomeReplayed)): 9,
		telemetry.MetricLeasesLost:                                     0,
	}
	for text, table := range map[string]string{
		"mishap":         r.chargesTable(),
		"hits":           r.countersTable(),
		"calls replayed": r.countersTable(),
		"takeovers":      r.countersTable(),
	} {
		if !strings.Contains(table, "│ "+text+" ") {
			t.Errorf("no line %q in:\n%s", text, table)
		}
	}
	if cells := strings.Fields(lineWith(r.chargesTable(), "mishap")); !slices.Equal(cells, []string{"│", "mishap", "│", "3", "│", "1", "│"}) {
		t.Errorf("cells %q", cells)
	}
	if table := r.countersTable(); strings.Contains(table, "leases lost") {
		t.Errorf("a line that says nothing in:\n%s", table)
	}
}

func lineWith(table, text string) string {
	for line := range strings.Lines(table) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

func TestScrape_SumsTheSeriesOfAMetric(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: telemetry.MetricCalls, Help: "-"},
		[]string{telemetry.LabelOperation, telemetry.LabelOutcome})
	registry.MustRegister(calls)
	calls.WithLabelValues("a", "executed").Add(1)
	calls.WithLabelValues("a", "replayed").Add(2)
	calls.WithLabelValues("b", "replayed").Add(3)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)

	sums := counters{}
	for range 2 { // two workers
		got, err := scrape(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		sums.add(got)
	}
	for series, want := range map[string]int{
		telemetry.MetricCalls:                       12,
		labelled(telemetry.MetricCalls, "executed"): 2,
		labelled(telemetry.MetricCalls, "replayed"): 10,
	} {
		if sums[series] != want {
			t.Errorf("%s: %d, want %d", series, sums[series], want)
		}
	}
}

func TestScrape_FailsOnWhatIsNoMetrics(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}\n"))
	}))
	t.Cleanup(server.Close)
	if sums, err := scrape(t.Context(), server.URL); err == nil {
		t.Errorf("no error but %v", sums)
	}
}

func TestLineWriter_KeepsLinesWholeHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	var got []string
	w := &lineWriter{emit: func(line string) { got = append(got, line) }}
	for _, piece := range []string{"on", "e\ntwo\r\n\nthr", "ee"} {
		_, _ = w.Write([]byte(piece))
	}
	w.flush()
	if want := []string{"one", "two", "", "three"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}

func TestConsole_HasNoColourInAFile(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	con := newConsole(file, func(err error) { t.Error(err) })
	con.title("title")
	con.line("worker-1", "text")
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "\x1b") || !strings.Contains(string(text), "worker-1   text\n") {
		t.Errorf("printed %q", text)
	}
}
