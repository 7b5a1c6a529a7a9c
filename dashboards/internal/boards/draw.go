package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func (p panel) builder(id uint32) cog.Builder[dashboard.Panel] {
	switch p.kind {
	case kindStat:
		return p.stat(id)
	case kindHeatmap:
		return p.heatmap(id)
	case kindTable:
		return p.table(id)
	case kindLines, kindBars, kindStack:
		return p.graph(id)
	}
	panic(fmt.Sprintf("panel %s: unknown kind %d", p.title, p.kind))
}

// refID is the letter of a query: no panel has as many as there are letters.
func refID(i int) string { return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i : i+1] }

func (q query) target(i int) *prometheus.DataqueryBuilder {
	t := prometheus.NewDataqueryBuilder().Datasource(source()).RefId(refID(i)).Expr(q.expr).LegendFormat(q.legend).
		EditorMode(prometheus.QueryEditorModeCode).Exemplar(q.exemplars)
	if q.instant {
		return t.Instant()
	}
	return t.Range()
}

func thresholds(limits []limit) *dashboard.ThresholdsConfigBuilder {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps(limits))
}

func steps(limits []limit) []dashboard.Threshold {
	if len(limits) == 0 {
		limits = []limit{{color: green}}
	}
	made := make([]dashboard.Threshold, len(limits))
	for i, l := range limits {
		made[i] = dashboard.Threshold{Color: l.color}
		if i > 0 {
			made[i].Value = new(l.from)
		}
	}
	return made
}

func (p panel) stat(id uint32) *stat.PanelBuilder {
	b := stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.description()).Datasource(source()).
		Span(p.width).Height(p.height).Unit(p.unit).Thresholds(thresholds(p.limits)).
		GraphMode(common.BigValueGraphModeArea).ColorMode(common.BigValueColorModeValue).
		Orientation(common.VizOrientationAuto).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
	for i, q := range p.queries {
		b.WithTarget(q.target(i))
		if q.instant { // a count of things that happened: the color must be seen from afar
			b.GraphMode(common.BigValueGraphModeNone).ColorMode(common.BigValueColorModeBackground).Decimals(0)
		}
	}
	return b
}

func (p panel) graph(id uint32) *timeseries.PanelBuilder {
	b := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.description()).Datasource(source()).
		Span(p.width).Height(p.height).Unit(p.unit).Thresholds(thresholds(p.limits)).Min(0).
		Legend(p.legend()).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		FillOpacity(10).LineWidth(1)
	if p.kind != kindLines {
		b.FillOpacity(60).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	}
	if p.kind == kindBars {
		b.DrawStyle(common.GraphDrawStyleBars)
	}
	if p.wide { // one stale result must be seen beside a thousand lost leases
		b.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNone).Group("A")).
			ScaleDistribution(common.NewScaleDistributionConfigBuilder().Type(common.ScaleDistributionSymlog).Log(10).LinearThreshold(1))
	}
	if len(p.limits) > 0 {
		b.ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	for i, q := range p.queries {
		b.WithTarget(q.target(i))
	}
	for _, name := range sorted(p.colors) {
		b.OverrideByName(name, []dashboard.DynamicConfigValue{fixed(p.colors[name])})
	}
	return b
}

// legend has the largest first: what did not happen is at the end. Stacks have many series, and room
// for them beside the graph.
func (p panel) legend() *common.VizLegendOptionsBuilder {
	l := common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeTable).ShowLegend(true).
		Placement(common.LegendPlacementBottom).Calcs([]string{"lastNotNull", "max"}).SortBy("Max").SortDesc(true)
	if p.kind == kindStack && p.width >= 12 {
		l.Placement(common.LegendPlacementRight)
	}
	return l
}

func fixed(color string) dashboard.DynamicConfigValue {
	return dashboard.DynamicConfigValue{Id: "color", Value: map[string]any{"mode": "fixed", "fixedColor": color}}
}

func (p panel) heatmap(id uint32) *heatmap.PanelBuilder {
	b := heatmap.NewPanelBuilder().Id(id).Title(p.title).Description(p.description()).Datasource(source()).
		Span(p.width).Height(p.height).Unit(p.unit).YAxis(heatmap.NewYAxisConfigBuilder().Unit(p.unit)).
		Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").
			Fill("dark-orange").Scale(heatmap.HeatmapColorScaleExponential).Exponent(0.5).Steps(64)).
		Tooltip(heatmap.NewHeatmapTooltipBuilder().Mode(common.TooltipDisplayModeSingle).YHistogram(true)).
		ShowLegend().ExemplarsColor("rgba(255,0,255,0.7)")
	for i, q := range p.queries {
		b.WithTarget(q.target(i).Format(prometheus.PromQueryFormatHeatmap))
	}
	return b
}
