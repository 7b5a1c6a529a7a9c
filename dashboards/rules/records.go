package rules

import (
	"fmt"
	"time"

	"github.com/onceguard/onceguard/telemetry"
)

// The share of store calls that fail is recorded over four windows: the alert looks at them in pairs.
const (
	errorRatio5m  = "job_operation:onceguard_storage_errors:ratio_rate5m"
	errorRatio30m = "job_operation:onceguard_storage_errors:ratio_rate30m"
	errorRatio1h  = "job_operation:onceguard_storage_errors:ratio_rate1h"
	errorRatio6h  = "job_operation:onceguard_storage_errors:ratio_rate6h"
)

// harmful leaves out lost notifications and looks at a record: they make a wait longer and harm nothing.
const harmful = telemetry.LabelPhase + `!~"notify|load"`

// asking are the phases of the others: each is one call of the store.
const asking = telemetry.LabelPhase + `=~"reserve|renew|replace|release"`

func (p pace) records() []Rule {
	return []Rule{
		p.errorRatio(errorRatio5m, 5*time.Minute),
		p.errorRatio(errorRatio30m, 30*time.Minute),
		p.errorRatio(errorRatio1h, time.Hour),
		p.errorRatio(errorRatio6h, 6*time.Hour),
	}
}

// errorRatio is the share of the store calls that fail, those behind their callers too.
func (p pace) errorRatio(name string, window time.Duration) Rule {
	w := p.of(window)
	return Rule{Record: name, Expr: lines(
		fmt.Sprintf("sum by (job, operation) (rate(%s{%s}[%s]))", telemetry.MetricStorageErrors, harmful, w),
		fmt.Sprintf("/ sum by (job, operation) (rate(%s_count{%s}[%s]))", telemetry.MetricPhaseDuration, asking, w),
	)}
}
