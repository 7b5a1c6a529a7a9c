// Package series knows which series a process with onceguard has, and finds what an expression of
// PromQL asks for that is not among them: a board or an alert that names it would stay empty.
package series

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// Catalog is the label sets of each series, by its name.
type Catalog map[string][]map[string]string

// Target labels, which Prometheus adds to what it scrapes.
const (
	labelJob      = "job"
	labelInstance = "instance"
	labelLe       = "le"
)

// Fresh is what the first scrape of a process shows that has made an operation of each kind of
// settings and called nothing.
func Fresh() (Catalog, error) {
	reg := prometheus.NewRegistry()
	tel, err := telemetry.New(telemetry.Options{Registerer: reg})
	if err != nil {
		return nil, err
	}
	for _, mode := range []guard.StorageErrorMode{guard.FailOpen, guard.FailClosed} {
		tel.Operation(guard.OperationInfo{Name: string(mode), OnStorageError: mode, OnInFlight: guard.Wait})
	}
	families, err := reg.Gather()
	if err != nil {
		return nil, err
	}
	c := Catalog{}
	for _, f := range families {
		c.add(f)
	}
	return c, nil
}

func (c Catalog) add(f *dto.MetricFamily) {
	for _, m := range f.GetMetric() {
		set := map[string]string{labelJob: "job", labelInstance: "instance"}
		for _, l := range m.GetLabel() {
			set[l.GetName()] = l.GetValue()
		}
		h := m.GetHistogram()
		if h == nil {
			c.Add(f.GetName(), set)
			continue
		}
		c.Add(f.GetName()+"_count", set)
		c.Add(f.GetName()+"_sum", set)
		for _, b := range h.GetBucket() {
			bucket := maps.Clone(set)
			bucket[labelLe] = fmt.Sprint(b.GetUpperBound())
			c.Add(f.GetName()+"_bucket", bucket)
		}
	}
}

// Add puts one more series into the catalog.
func (c Catalog) Add(name string, set map[string]string) { c[name] = append(c[name], set) }

// Parse reads an expression. Grafana's variables must have been replaced before.
func Parse(expr string) (parser.Expr, error) {
	return parser.NewParser(parser.Options{}).ParseExpr(expr)
}

// Missing lists what the expression asks for and no series of the catalog has: metrics, labels and
// values of labels. Matchers that any value fits say nothing of a value, only of the label.
func (c Catalog) Missing(expr string) ([]string, error) {
	tree, err := Parse(expr)
	if err != nil {
		return nil, err
	}
	var missing []string
	known := map[string]bool{}
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			missing = append(missing, c.missingOf(s, known)...)
		}
		return nil
	})
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		for _, label := range grouping(n) {
			if !known[label] {
				missing = append(missing, fmt.Sprintf("label %s in %s", label, n))
			}
		}
		return nil
	})
	return missing, nil
}

// grouping is the labels that a node sorts by.
func grouping(n parser.Node) []string {
	switch n := n.(type) {
	case *parser.AggregateExpr:
		return n.Grouping
	case *parser.BinaryExpr:
		if n.VectorMatching != nil {
			return slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include)
		}
	}
	return nil
}

// missingOf looks at one selector, and notes the labels that its series have.
func (c Catalog) missingOf(s *parser.VectorSelector, known map[string]bool) []string {
	fitting := c.named(s)
	if len(fitting) == 0 {
		return []string{"metric of " + s.String()}
	}
	for _, set := range fitting {
		for label := range set {
			known[label] = true
		}
	}
	var missing []string
	for _, m := range s.LabelMatchers {
		anyFits := slices.ContainsFunc(fitting, func(set map[string]string) bool { return fits(m, set) })
		if m.Name != model.MetricNameLabel && !anyFits {
			missing = append(missing, fmt.Sprintf("%s in %s", m, s))
		}
	}
	return missing
}

// named is the series whose name the selector asks for.
func (c Catalog) named(s *parser.VectorSelector) []map[string]string {
	var fitting []map[string]string
	for name, sets := range c {
		for _, m := range s.LabelMatchers {
			if m.Name == model.MetricNameLabel && m.Matches(name) {
				fitting = append(fitting, sets...)
			}
		}
	}
	return fitting
}

// fits asks for a label that is there with a value that the matcher takes. Anything that is only
// known at run time (the value is empty in the catalog) fits.
func fits(m *labels.Matcher, set map[string]string) bool {
	value, ok := set[m.Name]
	return ok && (value == "" || m.Matches(value))
}

// Names lists the metrics of the catalog, without the endings of histograms.
func (c Catalog) Names() []string {
	names := map[string]bool{}
	for name := range c {
		for _, ending := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, ending)
		}
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}
