package rules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/onceguard/onceguard/dashboards/internal/series"
	"github.com/onceguard/onceguard/dashboards/rules"
	"github.com/onceguard/onceguard/internal/realtest"
)

const (
	shipped = "onceguard.rules.yml"
	tests   = "onceguard.rules.test.yml"
)

func TestRules_CommittedFileIsFresh(t *testing.T) {
	want, err := rules.New(1).YAML()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatalf("%s is stale: run scripts/dashboards.sh -update", shipped)
	}
}

// What an alert or a record names must be there from the first scrape on, or it stays silent.
func TestRules_NameOnlySeriesThatAFreshProcessHas(t *testing.T) {
	catalog, err := series.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range allRules(1) {
		missing, err := catalog.Missing(r.Expr)
		if err != nil {
			t.Errorf("%s: %v", name(r), err)
		}
		if len(missing) > 0 {
			t.Errorf("%s asks for what no series has: %v", name(r), missing)
		}
		if r.Record != "" { // those that follow may use it
			catalog.Add(r.Record, map[string]string{"job": "job", "operation": "operation"})
		}
	}
}

func TestRules_EveryAlertSaysWhatToDo(t *testing.T) {
	for _, r := range rules.New(1).Alerts() {
		if !strings.HasPrefix(r.Alert, "Onceguard") {
			t.Errorf("%s: the name must begin with Onceguard, it stands among others", r.Alert)
		}
		if r.For == "" {
			t.Errorf("%s: no for", r.Alert)
		}
		if !slices.Contains([]string{rules.Critical, rules.Warning, rules.Info}, r.Labels["severity"]) {
			t.Errorf("%s: severity is %q", r.Alert, r.Labels["severity"])
		}
		a := r.Annotations
		if !strings.Contains(a["summary"], "{{ $labels.operation }}") {
			t.Errorf("%s: the summary does not name the operation: %q", r.Alert, a["summary"])
		}
		if _, action, _ := strings.Cut(a["description"], "\nFirst: "); action == "" {
			t.Errorf("%s: the description does not say what to do: %q", r.Alert, a["description"])
		}
		if a["runbook_url"] != rules.RunbookURL(r.Alert) {
			t.Errorf("%s: runbook_url is %q", r.Alert, a["runbook_url"])
		}
	}
}

func TestRules_SpeedDividesDurationsOnly(t *testing.T) {
	normal, fast := allRules(1), allRules(60)
	long := strings.NewReplacer("[5m]", "[5s]", "[10m]", "[10s]", "[15m]", "[15s]", "[30m]", "[30s]",
		"[1h]", "[1m]", "[6h]", "[6m]", " offset 15m", " offset 15s", " offset 1h", " offset 1m", " offset 6h", " offset 6m")
	for i := range normal {
		if got, want := fast[i].Expr, long.Replace(normal[i].Expr); got != want {
			t.Errorf("60 times faster\n%s\nwant\n%s", got, want)
		}
	}
	if got := rules.New(60).Groups[0].Interval; got != "500ms" {
		t.Errorf("interval is %s, want 500ms", got)
	}
	if got, _ := rules.New(0).YAML(); !strings.Contains(string(got), "interval: 30s\n") {
		t.Error("a speed below 1 is not 1")
	}
}

func TestPromtool_TakesTheRulesAtAnySpeed(t *testing.T) {
	promtool(t, "check", "rules", shipped)
	fast, err := rules.New(60).YAML()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), shipped)
	if err := os.WriteFile(file, fast, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// Each alert fires for its fault, alone, and is silent in a healthy process: the tests are in the file.
func TestPromtool_RulesPassTheirTests(t *testing.T) {
	promtool(t, "test", "rules", tests)
}

// An alert that no test expects would pass without ever having fired.
func TestPromtool_EveryAlertFiresInATest(t *testing.T) {
	text, err := os.ReadFile(tests)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tests []struct {
			Expect []struct {
				Samples []struct {
					Labels string `yaml:"labels"`
				} `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var expected strings.Builder
	for _, test := range file.Tests {
		for _, e := range test.Expect {
			for _, s := range e.Samples {
				expected.WriteString(s.Labels)
			}
		}
	}
	for _, r := range rules.New(1).Alerts() {
		want := `alertname="` + r.Alert + `", severity="` + r.Labels["severity"] + `"`
		if !strings.Contains(expected.String(), want) {
			t.Errorf("no test expects %s", want)
		}
	}
}

// promtool runs the tool of Prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), realtest.Promtool(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Logf("%s", out)
}

func allRules(speed int) []rules.Rule {
	var all []rules.Rule
	for _, g := range rules.New(speed).Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func name(r rules.Rule) string { return r.Record + r.Alert }
