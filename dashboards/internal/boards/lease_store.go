package boards

import (
	"github.com/onceguard/onceguard/dashboards/rules"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

const bucket = "_bucket"

func renewals() []panel {
	late := perSecond(of(telemetry.MetricLeaseRemaining+bucket, is("le", rules.LateRatio)))
	all := perSecond(of(telemetry.MetricLeaseRemaining + "_count"))
	return []panel{
		{
			kind: kindHeatmap, title: "Share of the lease left when a renewal landed", unit: share, width: 10, height: 8,
			runbook: rules.RenewalsLate,
			shows:   "Each renewal that landed, by how much of its lease was left.",
			good:    "one band between 60 % and 70 %: renewals are sent every third of the lease.",
			act:     "a band at 30 % is renewals that failed once, below that leases are about to be lost.",
			queries: []query{{
				expr: buckets(of(telemetry.MetricLeaseRemaining + bucket)), legend: legendOf("le"), exemplars: true,
			}},
		},
		{
			kind: kindLines, title: "Renewals that land late", unit: share, width: 7, height: 8, limits: over(0.02, 0.1),
			runbook: rules.RenewalsLate,
			shows:   "Share of the renewals that landed with less than " + rules.LateRatio + " of the lease left, by operation.",
			good:    "0. The alert fires at 10 %.",
			act:     "compare with the duration of the phase renew: if that is short, the process stands still, not the store.",
			queries: []query{{expr: shareOf(sum(late, byOperation), sum(all, byOperation)), legend: legendOf(byOperation)}},
		},
		{
			kind: kindStack, title: "Renewals by result", unit: events, width: 7, height: 8,
			shows: "What the store said: ok; restored, the record was gone and was put back; lost; or error, no answer.",
			good:  "ok alone. Short actions need no renewal.",
			act:   "restored is a store that loses data (flush, eviction, failover); lost and error come before a double run.",
			queries: []query{{
				expr:   sum(perSecond(of(telemetry.MetricLeaseRenewals)), telemetry.LabelResult),
				legend: legendOf(telemetry.LabelResult),
			}},
			colors: colors{
				string(guard.RenewOK): green, string(guard.RenewRestored): "yellow", string(guard.RenewLost): red, "error": orange,
			},
		},
	}
}

func storage() []panel {
	errors := of(telemetry.MetricStorageErrors)
	calls := sum(perSecond(of(telemetry.MetricPhaseDuration+"_count", storePhases())), byOperation)
	harmful := sum(perSecond(of(telemetry.MetricStorageErrors, telemetry.LabelPhase+`!~"notify|load"`)), byOperation)
	return []panel{
		{
			kind: kindStack, title: "Storage errors by phase", unit: events, width: 8, height: 8,
			shows: "Store calls that failed, by what they were to do.",
			good:  "0.",
			act: "reserve: calls are rejected or unguarded. renew: leases are in danger. replace: results are missing. " +
				"notify: waits are longer.",
			queries: []query{{expr: sum(perSecond(errors), telemetry.LabelPhase), legend: legendOf(telemetry.LabelPhase)}},
		},
		{
			kind: kindStack, title: "Storage errors by class", unit: events, width: 8, height: 8,
			shows: "The same, by what went wrong.",
			good:  "0.",
			act: "timeout, connection: the way to the store. readonly, cluster: a failover. out_of_memory: its limit. " +
				"auth: its password.",
			queries: []query{{expr: sum(perSecond(errors), telemetry.LabelClass), legend: legendOf(telemetry.LabelClass)}},
		},
		{
			kind: kindLines, title: "Share of the store calls that fail", unit: share, width: 8, height: 8,
			limits: over(0.006, 0.0144), runbook: rules.StorageErrorBudgetBurn,
			shows:   "By operation. Lost notifications and looks at a record are left out.",
			good:    "below 0.1 %, the budget.",
			act:     "the alert fires at 14.4 times the budget over an hour, or 6 times over six hours.",
			queries: []query{{expr: shareOf(harmful, calls), legend: legendOf(byOperation)}},
		},
		{
			kind: kindLines, title: "Duration of store calls, 99th percentile", unit: seconds, width: 16, height: 8,
			shows: "How long the store takes, by phase, failed calls included. The dots lead to traces.",
			good:  "a few milliseconds, all phases alike.",
			act: "a step to the store's time limit, or the next bucket above it, is a store that does not answer. Grows with load: the store or its network " +
				"is full.",
			queries: []query{{
				expr:   quantile(0.99, of(telemetry.MetricPhaseDuration+bucket, storePhases()), telemetry.LabelPhase),
				legend: legendOf(telemetry.LabelPhase), exemplars: true,
			}},
		},
		{
			kind: kindTable, title: "Most storage errors", unit: count, width: 8, height: 8,
			shows: "Phase and class together, in the time shown; the ten largest.",
			good:  "zeros.",
			act:   "begin with the first line.",
			queries: []query{{
				expr:    "topk(10, " + sum(inRange(errors), telemetry.LabelPhase, telemetry.LabelClass) + ")",
				instant: true,
			}},
			columns: []column{{"Errors", count, none(red), true}},
		},
	}
}

// storePhases are those that end with an answer of the store at once.
func storePhases() string {
	return isOneOf(telemetry.LabelPhase, string(guard.PhaseReserve), string(guard.PhaseRenew),
		string(guard.PhaseReplace), string(guard.PhaseRelease))
}
