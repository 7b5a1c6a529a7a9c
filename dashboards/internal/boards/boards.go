// Package boards makes the Grafana dashboards of onceguard. Their names of metrics and labels are
// the constants of package telemetry.
package boards

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/onceguard/onceguard/dashboards/rules"
	"github.com/onceguard/onceguard/telemetry"
)

const tag = "onceguard"

// Make returns the JSON of every board by the name of its file.
func Make() (map[string][]byte, error) {
	plugins.RegisterDefaultPlugins()
	made := map[string][]byte{}
	for _, b := range []board{leaseHealth(), operations(), temporal()} {
		text, err := b.json()
		if err != nil {
			return nil, fmt.Errorf("board %s: %w", b.title, err)
		}
		made[b.file] = text
	}
	return made, nil
}

// json is the classic form, which every Grafana imports.
func (b board) json() ([]byte, error) {
	d := dashboard.NewDashboardBuilder(b.title). //nolint:staticcheck // the form that replaces it is for Grafana 12 and newer
							Uid(b.uid).Description(b.description).
							Tags([]string{tag}).Readonly().Refresh("30s").Time("now-1h", "now").Timezone(common.TimeZoneBrowser).
							Tooltip(dashboard.DashboardCursorSyncCrosshair).
							Annotation(leaseLostMarks()).
							Link(dashboard.NewDashboardLinkBuilder("onceguard boards").Type(dashboard.DashboardLinkTypeDashboards).
								Tags([]string{tag}).AsDropdown(true).IncludeVars(true).KeepTime(true)).
							Link(dashboard.NewDashboardLinkBuilder("Runbooks").Type(dashboard.DashboardLinkTypeLink).
								Url(rules.Runbooks).TargetBlank(true))
	for _, v := range b.variables() {
		d.WithVariable(v)
	}
	for i, r := range b.rows {
		id := uint32(100 * (i + 1))
		d.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		for _, p := range r.panels {
			id++
			d.WithPanel(p.builder(id))
		}
	}
	made, err := d.Build()
	if err != nil {
		return nil, err
	}
	for i := range made.Links {
		made.Links[i].Placement = nil // the default hides links in a menu
	}
	for i := range made.Annotations.List {
		made.Annotations.List[i].Placement = nil
	}
	return encode(made)
}

func encode(board any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(board)
	return text.Bytes(), err
}

// leaseLostMarks draws a line through every panel where a lease was lost.
func leaseLostMarks() cog.Builder[dashboard.AnnotationQuery] {
	return dashboard.NewAnnotationQueryBuilder().Name("Leases lost").Datasource(source()).Enable(true).IconColor(red).
		Expr(sum("increase("+of(telemetry.MetricLeasesLost)+"[2m])", byOperation) + " > 0").Step("60s").
		TitleFormat("lease lost").TextFormat(legendOf(byOperation))
}
