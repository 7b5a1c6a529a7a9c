package boards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/onceguard/onceguard/telemetry"
)

// source is the data source that the reader has chosen.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

// variables are asked of the metric that each operation has from the start and forever.
func (b board) variables() []cog.Builder[dashboard.VariableModel] {
	const info = telemetry.MetricOperationInfo
	all := []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"),
		labelVariable("job", "Job", fmt.Sprintf("label_values(%s, job)", info)),
		labelVariable("instance", "Instance", fmt.Sprintf(`label_values(%s{job=~"$job"}, instance)`, info)),
		labelVariable(telemetry.LabelOperation, "Operation",
			fmt.Sprintf(`label_values(%s{job=~"$job",instance=~"$instance"}, %s)`, info, telemetry.LabelOperation)),
	}
	if b.temporal {
		all = append(all, labelVariable(sdkActivityType, "Activity type (SDK)",
			fmt.Sprintf("label_values(%s, %s)", sdkDuration(sdkActivityLatency, "_count"), sdkActivityType)))
	}
	return all
}

// labelVariable offers the values of a label, any number of them or all.
func labelVariable(name, label, query string) cog.Builder[dashboard.VariableModel] {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source()).
		Query(dashboard.StringOrMap{Map: map[string]any{
			"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery",
		}}).
		Definition(query).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).Multi(true).IncludeAll(true).AllValue(".+").
		Current(dashboard.VariableOption{
			Selected: new(true),
			Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}
