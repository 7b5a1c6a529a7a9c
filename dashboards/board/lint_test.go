package board_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/onceguard/onceguard/dashboards/board"
	"github.com/onceguard/onceguard/dashboards/internal/series"
)

// These are the rules of grafana's dashboard-linter, which cannot be a dependency, and those that
// boards of ours have beyond it.

const dir = ".."

// rateInterval stands for $__rate_interval, so that it is known again after parsing.
const rateInterval = "4321s"

func load(t *testing.T) []board.Board {
	t.Helper()
	boards, err := board.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(boards) != 3 {
		t.Fatalf("%d boards in %s, want 3", len(boards), dir)
	}
	return boards
}

// Links and bookmarks of users depend on these.
func TestBoards_UIDsAreStable(t *testing.T) {
	got := map[string]string{}
	for _, b := range load(t) {
		got[b.File] = b.UID
	}
	want := map[string]string{
		"lease-health.json": "onceguard-lease-health",
		"operations.json":   "onceguard-operations",
		"temporal.json":     "onceguard-temporal",
	}
	for file, uid := range want {
		if got[file] != uid {
			t.Errorf("%s has uid %q, want %q", file, got[file], uid)
		}
	}
}

func TestBoards_AreClassicAndReadOnlyAndLinked(t *testing.T) {
	for _, b := range load(t) {
		if b.SchemaVersion != 42 || b.Editable || b.Description == "" || !slices.Contains(b.Tags, "onceguard") {
			t.Errorf("%s: schema %d, editable %v, description %q, tags %v",
				b.File, b.SchemaVersion, b.Editable, b.Description, b.Tags)
		}
		linked := slices.ContainsFunc(b.Links, func(l board.Link) bool {
			return l.Type == "dashboards" && slices.Contains(l.Tags, "onceguard") && l.KeepTime && l.IncludeVars
		})
		if !linked {
			t.Errorf("%s: no links to the other boards that keep time and variables", b.File)
		}
		for _, l := range b.Links {
			if l.Placement != "" {
				t.Errorf("%s: link %s is hidden in a menu (placement %s)", b.File, l.Title, l.Placement)
			}
		}
		for _, a := range b.Annotations.List {
			if a.Placement != "" || a.Datasource != source {
				t.Errorf("%s: annotation %s has placement %q and data source %v", b.File, a.Name, a.Placement, a.Datasource)
			}
		}
	}
}

var source = board.Source{Type: "prometheus", UID: "${datasource}"}

func TestBoards_HaveTheirVariables(t *testing.T) {
	for _, b := range load(t) {
		names := map[string]board.Variable{}
		for _, v := range b.Templating.List {
			names[v.Name] = v
		}
		if v := names["datasource"]; v.Type != "datasource" || v.Label != "Data source" || string(v.Query) != `"prometheus"` {
			t.Errorf("%s: variable datasource is %+v", b.File, v)
		}
		for _, name := range []string{"job", "instance", "operation"} {
			if names[name].Type != "query" {
				t.Errorf("%s: no query variable %s", b.File, name)
			}
		}
		for _, v := range b.Templating.List {
			if v.Type == "query" {
				queryVariable(t, b, v)
			}
		}
	}
}

// queryVariable is loaded anew with the time, offers all, and asks for label values of a valid selector.
func queryVariable(t *testing.T, b board.Board, v board.Variable) {
	t.Helper()
	if v.Label == "" || v.Datasource != source || !v.Multi || !v.IncludeAll || v.AllValue != ".+" || v.Refresh != 2 {
		t.Errorf("%s: variable %s: %+v", b.File, v.Name, v)
	}
	var query struct{ Query string }
	if err := json.Unmarshal(v.Query, &query); err != nil || query.Query != v.Definition {
		t.Errorf("%s: variable %s asks for %s and shows %q (%v)", b.File, v.Name, v.Query, v.Definition, err)
	}
	selector, label, err := v.LabelValues()
	if err != nil {
		t.Errorf("%s: %v", b.File, err)
		return
	}
	if label != v.Name {
		t.Errorf("%s: variable %s offers the values of %s", b.File, v.Name, label)
	}
	if _, err := series.Parse(expand(t, b, selector)); err != nil {
		t.Errorf("%s: variable %s: %v", b.File, v.Name, err)
	}
}

func expand(t *testing.T, b board.Board, expr string) string {
	t.Helper()
	expanded, err := board.Expand(expr, b.All(rateInterval, "1h"))
	if err != nil {
		t.Errorf("%s: %v", b.File, err)
	}
	return expanded
}

// eachPanel is called for every panel but the titles of rows.
func eachPanel(t *testing.T, do func(t *testing.T, b board.Board, p board.Panel)) {
	t.Helper()
	for _, b := range load(t) {
		for _, p := range b.Queries() {
			t.Run(strings.TrimSuffix(b.File, ".json")+"/"+p.Title, func(t *testing.T) { do(t, b, p) })
		}
	}
}

func TestPanels_SayWhatTheyShowAndWhatToDo(t *testing.T) {
	eachPanel(t, func(t *testing.T, b board.Board, p board.Panel) {
		t.Helper()
		if p.Title == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource != source || len(p.Targets) == 0 {
			t.Errorf("title %q, unit %q, data source %v, %d targets",
				p.Title, p.FieldConfig.Defaults.Unit, p.Datasource, len(p.Targets))
		}
		if !regexp.MustCompile(`(?s)^.{10,}\n\n\*\*Good:\*\* .+\n\n\*\*Else:\*\* .{10,}`).MatchString(p.Description) {
			t.Errorf("the description does not say what it shows, what is good and what to do: %q", p.Description)
		}
		for _, link := range regexp.MustCompile(`docs/runbooks/(\w+\.md)`).FindAllStringSubmatch(p.Description, -1) {
			if _, err := os.Stat(filepath.Join(dir, "../docs/runbooks", link[1])); err != nil {
				t.Errorf("its runbook: %v", err)
			}
		}
	})
}

// The builder's defaults hide both.
func TestPanels_ShowLegendAndTooltip(t *testing.T) {
	eachPanel(t, func(t *testing.T, b board.Board, p board.Panel) {
		t.Helper()
		if p.Type != "timeseries" && p.Type != "heatmap" {
			return // it has none
		}
		l := p.Options.Legend
		if l == nil || (l.ShowLegend == nil || !*l.ShowLegend) && (l.Show == nil || !*l.Show) {
			t.Error("the legend is hidden")
		}
		if p.Options.Tooltip == nil || p.Options.Tooltip.Mode == "" || p.Options.Tooltip.Mode == "none" {
			t.Error("the tooltip is hidden")
		}
	})
}

func TestPanels_HaveUniqueIDsAndPlaces(t *testing.T) {
	for _, b := range load(t) {
		taken := map[[2]int]string{}
		ids := map[int]string{}
		for _, p := range b.Panels {
			if other, ok := ids[p.ID]; ok || p.ID == 0 {
				t.Errorf("%s: id %d of %q is that of %q, or none", b.File, p.ID, p.Title, other)
			}
			ids[p.ID] = p.Title
			if p.GridPos.W == 0 || p.GridPos.H == 0 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: %q has no place: %+v", b.File, p.Title, p.GridPos)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, ok := taken[[2]int{x, y}]; ok {
						t.Fatalf("%s: %q lies over %q", b.File, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

func TestTargets_AreOfTheChosenSourceAndNamed(t *testing.T) {
	eachPanel(t, func(t *testing.T, b board.Board, p board.Panel) {
		t.Helper()
		for i, target := range p.Targets {
			if target.RefID != string(rune('A'+i)) || target.Datasource != source || target.Instant == target.Range {
				t.Errorf("target %d: refId %q, data source %v, instant %v, range %v",
					i, target.RefID, target.Datasource, target.Instant, target.Range)
			}
			if p.Type == "heatmap" && target.Format != "heatmap" || p.Type == "table" && target.Format != "table" {
				t.Errorf("target %s of a %s has format %q", target.RefID, p.Type, target.Format)
			}
		}
	})
}

// A number that Prometheus gave once is no line over time, and a dot needs one.
func TestTargets_OfHistogramsHaveExemplars(t *testing.T) {
	with := 0
	eachPanel(t, func(t *testing.T, b board.Board, p board.Panel) {
		t.Helper()
		if p.Type != "timeseries" && p.Type != "heatmap" {
			return // it draws none
		}
		own, shown := false, false
		for _, target := range p.Targets {
			own = own || regexp.MustCompile(`onceguard_\w+_bucket\{[^}]*\}`).MatchString(target.Expr) &&
				!strings.Contains(target.Expr, `le="`)
			shown = shown || target.Exemplar
		}
		if own != shown {
			t.Errorf("reads a histogram: %v, shows exemplars: %v", own, shown)
		}
		if shown {
			with++
		}
	})
	if with == 0 {
		t.Error("no panel shows exemplars")
	}
}

func TestTargets_ArePromQLThatFollowsTheVariables(t *testing.T) {
	eachPanel(t, func(t *testing.T, b board.Board, p board.Panel) {
		t.Helper()
		for _, target := range p.Targets {
			tree, err := series.Parse(expand(t, b, target.Expr))
			if err != nil {
				t.Errorf("%s: %v", target.RefID, err)
				continue
			}
			parser.Inspect(tree, func(n parser.Node, parents []parser.Node) error {
				switch n := n.(type) {
				case *parser.VectorSelector:
					followsVariables(t, n)
					isCounted(t, n, parents)
				case *parser.MatrixSelector:
					hasTheRightRange(t, n, parents)
				}
				return nil
			})
		}
	})
}

// followsVariables: the reader's choice of processes and operations reaches each selector.
func followsVariables(t *testing.T, s *parser.VectorSelector) {
	t.Helper()
	chosen := []string{"job", "instance"}
	if strings.HasPrefix(s.Name, "onceguard_") {
		chosen = append(chosen, "operation")
	}
	for _, name := range chosen {
		if !slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool {
			return m.Name == name && m.Type == labels.MatchRegexp && m.Value == ".+"
		}) {
			t.Errorf("%s does not follow the variable %s", s, name)
		}
	}
}

// isCounted: a counter says nothing but through rate or increase.
func isCounted(t *testing.T, s *parser.VectorSelector, parents []parser.Node) {
	t.Helper()
	if !regexp.MustCompile(`(_total\)?\??|_bucket|_count|_sum)$`).MatchString(metric(s)) {
		return
	}
	if len(parents) >= 2 {
		call, ok := parents[len(parents)-2].(*parser.Call)
		if ok && slices.Contains([]string{"rate", "irate", "increase"}, call.Func.Name) {
			return
		}
	}
	t.Errorf("counter %s is in no rate or increase", s)
}

func metric(s *parser.VectorSelector) string {
	for _, m := range s.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			return m.Value
		}
	}
	return s.Name
}

// hasTheRightRange: $__rate_interval is never shorter than four scrapes. Only an increase over all of
// the time shown may have another.
func hasTheRightRange(t *testing.T, s *parser.MatrixSelector, parents []parser.Node) {
	t.Helper()
	if s.Range.String() == "1h12m1s" {
		return
	}
	call, ok := parents[len(parents)-1].(*parser.Call)
	if !ok || call.Func.Name != "increase" || s.Range.String() != "1h0m0s" {
		t.Errorf("%s has neither $__rate_interval nor, in an increase, $__range", s)
	}
}
