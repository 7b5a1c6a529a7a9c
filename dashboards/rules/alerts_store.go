package rules

import (
	"fmt"
	"time"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// storage has one alert of two speeds: the budget of a month is gone in two days, or in five.
func (p pace) storage() []Rule {
	return []Rule{
		p.rule(p.burn(Critical, 14.4, 2*time.Minute, errorRatio1h, errorRatio5m, time.Hour)),
		p.rule(p.burn(Warning, 6, 15*time.Minute, errorRatio6h, errorRatio30m, 6*time.Hour)),
		p.rule(alert{
			name: StoreLosesRecords, severity: Warning,
			expr: p.happened(recent, fmt.Sprintf("%s{%s=%q}",
				telemetry.MetricLeaseRenewals, telemetry.LabelResult, guard.RenewRestored)) + " > 0",
			summary: "{{ $labels.operation }} of {{ $labels.job }}: the store has lost reservations",
			meaning: "A renewal found no record of its key and put it back: the store has lost it, by an eviction, a flush, a restart " +
				"without persistence, or a failover. What it loses of results nobody notices: their calls have the effect again.",
			action: "ask the store what it evicted and how it persists, see the page of package redisx, The server.",
		}),
	}
}

func (p pace) burn(severity string, rate float64, wait time.Duration, long, short string, window time.Duration) alert {
	return alert{
		name: StorageErrorBudgetBurn, severity: severity, wait: wait,
		expr: lines(
			fmt.Sprintf("%s > %g * %g", long, rate, errorBudget),
			fmt.Sprintf("and %s > %g * %g", short, rate, errorBudget),
			fmt.Sprintf("and %s > %d", p.happened(window, telemetry.MetricStorageErrors+"{"+harmful+"}"), fewErrors),
		),
		summary: "{{ $labels.operation }} of {{ $labels.job }}: {{ $value | humanizePercentage }} of its store calls fail",
		meaning: fmt.Sprintf("Store calls fail %g times as often as a budget of %g %% allows. Operations that fail closed do not "+
			"run: nothing is paid twice, and nothing is paid. Those that fail open run unguarded: a duplicate is paid. Results "+
			"that cannot be stored are paid again by the next call.", rate, errorBudget*100),
		action: "look at the errors by class on the lease health board: connection and timeout are the way to the store, " +
			"readonly and cluster a failover, out_of_memory its limit, auth a changed password.",
	}
}

func (p pace) outcomes() []Rule {
	return []Rule{
		p.rule(alert{
			name: KeysHeld, severity: Warning,
			expr:    p.happened(recent, telemetry.MetricHolds, telemetry.LabelReason) + " > 0",
			summary: "{{ $labels.operation }} of {{ $labels.job }}: keys are held ({{ $labels.reason }})",
			meaning: "An effect may have happened and nobody knows. The key is blocked, so nothing is paid twice, and its " +
				"customer waits until somebody finds out: a recovery hook at the next call, or a person.",
			action: "list the held keys with Guard.List, look at the other side whether the effect is there, and settle each with " +
				"Operation.Resolve, or Interceptor.Resolve for an activity, and the fence that was listed.",
		}),
		p.rule(alert{
			name: OutcomesUnknown, severity: Warning,
			expr: p.happened(recent, fmt.Sprintf("%s{%s=%q}",
				telemetry.MetricCalls, telemetry.LabelOutcome, guard.OutcomeUnknown)) + " > 0",
			summary: "{{ $labels.operation }} of {{ $labels.job }}: calls are turned away since an earlier outcome is unknown",
			meaning: "Callers came back for a key that is held and got \"outcome unknown\": the action did not run. Their " +
				"customers wait, and retries change nothing until the key is settled.",
			action: "take the key hash from the log line \"outcome of an earlier call unknown\" and settle the key as in " + KeysHeld + ".",
		}),
		p.rule(alert{
			name: ResultsNotStored, severity: Warning,
			expr:    p.happened(recent, telemetry.MetricUnstoredResults, telemetry.LabelReason) + " > 0",
			summary: "{{ $labels.operation }} of {{ $labels.job }}: results are not stored ({{ $labels.reason }})",
			meaning: "The action ran and its caller has the result, but the store does not. A later call with the same key " +
				"has the effect again, or finds the key held if the operation is at most once or has a recovery hook.",
			action: "too_large and encoding are mended in the code and come back with every call; storage is the store, see " +
				StorageErrorBudgetBurn + ".",
		}),
		p.rule(alert{
			name: LogLinesDropped, severity: Info, wait: 5 * time.Minute,
			expr:    p.happened(recent, telemetry.MetricLogLinesDropped) + " > 0",
			summary: "{{ $labels.operation }} of {{ $labels.job }}: log lines about leases were dropped",
			meaning: "The log handler does not keep up, and lines about renewals and lost leases are missing. The metrics count " +
				"all of them, but the key hashes that the other runbooks begin with are in those lines.",
			action: "give the logger a handler that does not block, or a faster sink.",
		}),
	}
}
