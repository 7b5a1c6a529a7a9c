package series_test

import (
	"strings"
	"testing"

	"github.com/onceguard/onceguard/dashboards/internal/series"
)

// The check itself must notice what would leave a panel empty.
func TestMissing_NoticesWhatNoSeriesHas(t *testing.T) {
	catalog, err := series.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[string]string{
		`sum by (job, operation, outcome) (rate(onceguard_calls_total{outcome="executed"}[5m]))`: "",
		`onceguard_lease_remaining_ratio_bucket{le="0.4"}`:                                       "",
		`rate(onceguard_call_total[5m])`:                                                         "metric of onceguard_call_total",
		`onceguard_calls_total{outcome="execute"}`:                                               `outcome="execute"`,
		`onceguard_calls_total{result="ok"}`:                                                     `result="ok"`,
		`onceguard_lease_remaining_ratio_bucket{le="0.45"}`:                                      `le="0.45"`,
		`sum by (phase) (onceguard_hits_total)`:                                                  "label phase",
		`onceguard_hits_total and on (outcome) onceguard_waiters`:                                "label outcome",
		`{__name__=~"onceguard_hit(_total)?"}`:                                                   "metric of",
		`{__name__=~"onceguard_hits(_total)?",operation=~"fail_closed"}`:                         "",
	} {
		missing, err := catalog.Missing(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
		}
		got := strings.Join(missing, "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s\nmissing %q\nwant    %q", expr, got, want)
		}
	}
}
