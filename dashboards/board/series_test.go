package board_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/dashboards/board"
	"github.com/onceguard/onceguard/dashboards/internal/series"
)

// What a panel, a variable or an annotation names is in the first scrape of a process, or is a
// metric that the source of the Temporal SDK has.
func TestBoards_NameOnlySeriesThatExist(t *testing.T) {
	catalog, err := series.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	addTemporal(t, catalog)
	missing := func(what string, b board.Board, expr string) {
		got, err := catalog.Missing(expand(t, b, expr))
		if err != nil {
			t.Errorf("%s: %s: %v", b.File, what, err)
		}
		if len(got) > 0 {
			t.Errorf("%s: %s asks for what no series has: %v", b.File, what, got)
		}
	}
	for _, b := range load(t) {
		for _, p := range b.Queries() {
			for _, target := range p.Targets {
				missing(p.Title, b, target.Expr)
			}
		}
		for _, a := range b.Annotations.List {
			missing(a.Name, b, a.Expr)
		}
		for _, v := range b.Templating.List {
			if v.Type == "query" {
				selector, label, err := v.LabelValues()
				if err != nil {
					t.Fatal(err)
				}
				missing(v.Name, b, "count by ("+label+") ("+selector+")")
			}
		}
	}
}

// A metric that no board shows is one that nobody will see.
func TestBoards_ShowEveryMetric(t *testing.T) {
	catalog, err := series.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for _, b := range load(t) {
		for _, p := range b.Queries() {
			for _, target := range p.Targets {
				shown.WriteString(target.Expr)
			}
		}
	}
	for _, name := range catalog.Names() {
		if !regexp.MustCompile(`\b` + name + `(_bucket|_count|_sum)?\{`).MatchString(shown.String()) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// addTemporal adds the metrics of the Temporal SDK under the names that each of its handlers gives
// them. The base names and tags are constants of the SDK that it does not export: its source is read.
func addTemporal(t *testing.T, catalog series.Catalog) {
	t.Helper()
	source := sdkConstants(t)
	words := map[string]bool{}
	for _, m := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(source, -1) {
		words[strings.TrimPrefix(m[1], "temporal_")] = true
	}
	words["request_failure"] = words["_failure"] // put together there
	set := map[string]string{"job": "", "instance": "", "le": ""}
	for _, tag := range []string{"namespace", "activity_type", "task_queue", "worker_type", "operation", "workflow_type"} {
		if !words[tag] {
			t.Errorf("the Temporal SDK has no tag %s", tag)
		}
		set[tag] = ""
	}
	endings := []string{"", "_total", "_seconds_bucket", "_seconds_count", "_seconds_sum", "_bucket", "_count", "_sum"}
	for word := range words {
		for _, ending := range endings {
			catalog.Add("temporal_"+word+ending, maps.Clone(set))
		}
	}
	if !slices.Contains(slices.Collect(maps.Keys(catalog)), "temporal_activity_execution_latency_seconds_bucket") {
		t.Error("the names of the Temporal SDK's metrics were not found in its source")
	}
}

func sdkConstants(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "go.temporal.io/sdk")
	cmd.Dir = filepath.Join(dir, "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("where is the Temporal SDK: %v", err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "internal/common/metrics/constants.go"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}
