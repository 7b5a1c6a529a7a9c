package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/onceguard/onceguard/dashboards/rules"
)

// kind is how a panel draws what it asks for.
type kind int

const (
	kindStat    kind = iota // one number, colored by its limits
	kindLines               // lines over time
	kindBars                // bars over time, stacked: for things that happen now and then
	kindStack               // areas over time, stacked: for shares of a whole
	kindHeatmap             // classic buckets over time
	kindTable               // one row for each operation
)

// panel is one panel of a board. Its description is made of three parts that each must have.
type panel struct {
	kind   kind
	title  string
	shows  string // what it shows
	good   string // what good looks like
	act    string // what to do when it does not
	unit   string
	width  uint32
	height uint32
	limits []limit
	wide   bool // values of very different size: the scale is logarithmic

	queries []query
	columns []column // of a table: one for each query, in its order
	colors  colors
	runbook string // the alert whose page the panel links to
}

// query is one expression of a panel.
type query struct {
	expr      string
	legend    string
	instant   bool
	exemplars bool
}

// column is what a query of a table becomes.
type column struct {
	title  string
	unit   string
	limits []limit
	// colored fills the cell with the color of the limit.
	colored bool
}

// limit is a value from which on a color holds. The first of a list has no value.
type limit struct {
	from  float64
	color string
}

const (
	green  = "green"
	orange = "orange"
	red    = "red"
)

// none is for counts of which each one is too many. It is below one, since increase() extrapolates.
func none(color string) []limit { return []limit{{color: green}, {0.5, color}} }

// over turns to orange and red at two values.
func over(warn, bad float64) []limit { return []limit{{color: green}, {warn, orange}, {bad, red}} }

func (p panel) description() string {
	text := fmt.Sprintf("%s\n\n**Good:** %s\n\n**Else:** %s", p.shows, p.good, p.act)
	if p.runbook != "" {
		text += fmt.Sprintf("\n\n[Runbook](%s)", rules.RunbookURL(p.runbook))
	}
	return text
}

// colors are those of series that mean something, by their legend.
type colors map[string]string

// row is a title and the panels below it.
type row struct {
	title  string
	panels []panel
}

// board is a whole dashboard.
type board struct {
	file        string
	uid         string
	title       string
	description string
	temporal    bool // has the variables of Temporal's own metrics too
	rows        []row
}

// Units of the panels.
const (
	count   = units.Short
	share   = units.PercentUnit
	perSec  = units.RequestsPerSecond
	events  = units.OpsPerSecond
	seconds = units.Seconds
	binary  = units.BytesIEC
)
