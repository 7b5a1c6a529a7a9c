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

// harmful leaves out lost notifications: they make a wait longer and harm nothing.
const harmful = telemetry.LabelPhase + `!="notify"`

func (p pace) records() []Rule {
	return []Rule{
		p.errorRatio(errorRatio5m, 5*time.Minute),
		p.errorRatio(errorRatio30m, 30*time.Minute),
		p.errorRatio(errorRatio1h, time.Hour),
		p.errorRatio(errorRatio6h, 6*time.Hour),
	}
}

// errorRatio is errors by calls and renewals. Renewals count because an action of ten minutes is
// one call, and its lease asks the store many times.
func (p pace) errorRatio(name string, window time.Duration) Rule {
	w := p.of(window)
	return Rule{Record: name, Expr: lines(
		fmt.Sprintf("sum by (job, operation) (rate(%s{%s}[%s]))", telemetry.MetricStorageErrors, harmful, w),
		"/ (",
		fmt.Sprintf("  sum by (job, operation) (rate(%s[%s]))", telemetry.MetricCalls, w),
		fmt.Sprintf("  + sum by (job, operation) (rate(%s[%s]))", telemetry.MetricLeaseRenewals, w),
		")",
	)}
}
