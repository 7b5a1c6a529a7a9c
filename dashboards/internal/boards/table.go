package boards

import (
	"maps"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/table"

	"github.com/onceguard/onceguard/telemetry"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// table joins the queries by their labels: one column for each.
func (p panel) table(id uint32) *table.PanelBuilder {
	renamed := map[string]string{}
	for i, c := range p.columns {
		renamed[p.valueField(i)] = c.title
	}
	b := table.NewPanelBuilder().Id(id).Title(p.title).Description(p.description()).Datasource(source()).
		Span(p.width).Height(p.height).Unit(p.unit).
		Footer(common.NewTableFooterOptionsBuilder().Show(false).Reducer([]string{"sum"})).
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": map[string]bool{"Time": true}, "renameByName": renamed,
		}}).
		OverrideByName(telemetry.LabelOperation, []dashboard.DynamicConfigValue{{Id: "links", Value: operationLinks()}})
	for i, q := range p.queries {
		b.WithTarget(q.target(i).Format(prometheus.PromQueryFormatTable))
	}
	for _, c := range p.columns {
		b.OverrideByName(c.title, c.properties())
	}
	return b
}

// valueField is how Grafana names the numbers of a query.
func (p panel) valueField(i int) string {
	if len(p.queries) == 1 {
		return "Value"
	}
	return "Value #" + refID(i)
}

func (c column) properties() []dashboard.DynamicConfigValue {
	set := []dashboard.DynamicConfigValue{
		{Id: "unit", Value: c.unit},
		{Id: "thresholds", Value: map[string]any{"mode": "absolute", "steps": steps(c.limits)}},
	}
	if c.unit == count {
		set = append(set, dashboard.DynamicConfigValue{Id: "decimals", Value: 0})
	}
	if c.colored {
		set = append(set, dashboard.DynamicConfigValue{
			Id: "custom.cellOptions", Value: map[string]any{"type": "color-background", "mode": "basic"},
		})
	}
	return set
}

// operationLinks lead from a name of an operation to the boards, with the choice that was made.
func operationLinks() []map[string]any {
	link := func(title, uid string) map[string]any {
		return map[string]any{
			"title": title,
			"url": "/d/" + uid + "?${__url_time_range}&${datasource:queryparam}&${job:queryparam}&${instance:queryparam}" +
				"&var-" + telemetry.LabelOperation + "=${__value.raw}",
		}
	}
	return []map[string]any{link("Lease health", "onceguard-lease-health"), link("Operations", "onceguard-operations")}
}
