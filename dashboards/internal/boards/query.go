package boards

import (
	"fmt"
	"strings"

	"github.com/onceguard/onceguard/telemetry"
)

// chosen is in every selector of onceguard's metrics: the variables of the board.
const chosen = `job=~"$job",instance=~"$instance",` + telemetry.LabelOperation + `=~"$operation"`

// of selects the series of a metric that the variables and more matchers choose.
func of(metric string, matchers ...string) string {
	return metric + "{" + strings.Join(append([]string{chosen}, matchers...), ",") + "}"
}

// perSecond is the rate of a counter.
func perSecond(selector string) string { return "rate(" + selector + "[$__rate_interval])" }

// inStep is how often a counter moved in one step of a graph.
func inStep(selector string) string { return "increase(" + selector + "[$__rate_interval])" }

// inRange is how often a counter moved in the time that the board shows.
func inRange(selector string) string { return "increase(" + selector + "[$__range])" }

// sum adds up by labels, or all of it.
func sum(expr string, by ...string) string { return aggregate("sum", expr, by) }

func maximum(expr string, by ...string) string { return aggregate("max", expr, by) }

func aggregate(function, expr string, by []string) string {
	if len(by) == 0 {
		return function + "(" + expr + ")"
	}
	return fmt.Sprintf("%s by (%s) (%s)", function, strings.Join(by, ", "), expr)
}

// shareOf is part by whole, and 0 where the whole is nothing: a gap would look like a fault.
func shareOf(part, whole string) string { return part + " / clamp_min(" + whole + ", 1e-9)" }

// quantile is over the classic buckets, which every Prometheus has.
func quantile(q float64, selector string, by ...string) string {
	return fmt.Sprintf("histogram_quantile(%g, %s)", q, sum(perSecond(selector), append([]string{"le"}, by...)...))
}

// buckets are what a heatmap draws.
func buckets(selector string) string { return sum(inStep(selector), "le") }

func is(label, value string) string { return fmt.Sprintf("%s=%q", label, value) }

func isOneOf(label string, values ...string) string {
	return fmt.Sprintf("%s=~%q", label, strings.Join(values, "|"))
}

const byOperation = telemetry.LabelOperation

// legendOf shows the values of labels.
func legendOf(labels ...string) string {
	shown := make([]string, len(labels))
	for i, l := range labels {
		shown[i] = "{{" + l + "}}"
	}
	return strings.Join(shown, " ")
}
