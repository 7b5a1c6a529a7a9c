package telemetry_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

func TestPromtool_FindsNothingToSayAboutTheMetrics(t *testing.T) {
	t.Parallel()
	promtool := realtest.Promtool(t)
	l := newLab(t)
	if _, err := l.op(t, guard.NewMemoryStore()).Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	check := func(exposition string) (said string, err error) {
		cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(exposition)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if said, err := check(scrape(t, l.registry)); err != nil || said != "" {
		t.Errorf("promtool check metrics: %v\n%s", err, said)
	}
	if said, err := check("# TYPE calls counter\ncalls 1\n"); err == nil || !strings.Contains(said, "_total") {
		t.Errorf("promtool has nothing to say about a counter without total (%v, %q): it does not check", err, said)
	}
}
