package endings

import (
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

var update = flag.Bool("update", false, "write what is measured into the table of docs/temporal.md")

// TestMain runs more tests at once than there are processors, since most of them wait most of
// the time, and is the worker that a test kills when it is told so.
func TestMain(m *testing.M) {
	if told := os.Getenv(workerVariable); told != "" {
		os.Exit(beWorker(told))
	}
	if err := flag.Set("test.parallel", "20"); err != nil {
		panic(err)
	}
	realtest.Main(m)
}

// ending is a row of the table.
type ending struct {
	name  string
	setup setup
	// run lets the ending happen. The worker is not started before it, and the workflow is
	// over at its end. Default: a workflow runs.
	run func(l *lab)
}

// endings are the rows in their order.
func endings() []ending {
	return slices.Concat(
		ofTheActivity(), ofTimeouts(), ofCancels(), ofWorkers(), ofServers(), ofOperators(), ofRuns(), ofKinds(),
		ofCompletions(),
	)
}

func TestEndings_AreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	documented := readTable(t)
	var mu sync.Mutex
	measured := map[string]string{}
	t.Run("ending", func(t *testing.T) {
		s := newSite(t, realtest.SharedTemporal(t))
		for _, e := range endings() {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				row := s.measure(t, e)
				mu.Lock()
				defer mu.Unlock()
				measured[e.name] = row
				if !*update && documented.rows[e.name] != row {
					t.Errorf("docs/temporal.md has the row\n%s\nand the run has measured\n%s\nif that is meant, run with -update",
						documented.rows[e.name], row)
				}
			})
		}
	})
	if *update {
		documented.write(t, measured)
		return
	}
	var names []string
	for _, e := range endings() {
		names = append(names, e.name)
	}
	if !slices.Equal(documented.names, names) {
		t.Errorf("the rows of docs/temporal.md are\n%s\nwant\n%s", strings.Join(documented.names, "\n"), strings.Join(names, "\n"))
	}
}

// measure lets an ending happen and returns its row.
func (s *site) measure(t *testing.T, e ending) string {
	t.Helper()
	l := s.lab(t, e.setup)
	if e.run == nil {
		e.run = func(l *lab) {
			l.start()
			l.over(l.begin())
		}
	}
	e.run(l)
	l.idle()
	return l.row(e.name)
}
