package boards

import (
	"github.com/onceguard/onceguard/dashboards/rules"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// leaseHealth is the board of whoever is on call. Its first row answers whether money is in danger.
func leaseHealth() board {
	return board{
		file: "lease-health.json", uid: "onceguard-lease-health", title: "onceguard / Lease health",
		description: "For whoever is on call. The first row: is money in danger, in the time shown? All green is no. " +
			"The table below it says in which operation; the rows further down say why.",
		rows: []row{
			{"Is money in danger? (in the time shown)", append(dangers(), dangerByOperation(), dangerOverTime())},
			{"Leases that live now", livingLeases()},
			{"How close to their end renewals land", renewals()},
			{"The store", storage()},
		},
	}
}

// danger is a number of which each one can cost money.
func danger(width uint32, title, counter, color, runbook, shows, act string) panel {
	return panel{
		kind: kindStat, title: title, shows: shows, good: "0.", act: act, unit: count,
		width: width, height: 4, limits: none(color), runbook: runbook,
		queries: []query{{expr: sum(inRange(counter)), legend: title, instant: true}},
	}
}

// unwanted leaves out the Run mode: to run beside others is what it is for.
func unwanted() string {
	return of(telemetry.MetricUnguarded, isOneOf(telemetry.LabelReason, guard.ReasonStorage, guard.ReasonDisabled))
}

func unknownCalls() string {
	return of(telemetry.MetricCalls, is(telemetry.LabelOutcome, string(guard.OutcomeUnknown)))
}

func rejectedCalls() string {
	return of(telemetry.MetricCalls, is(telemetry.LabelOutcome, string(guard.OutcomeRejected)))
}

func dangers() []panel {
	return []panel{
		danger(4, "Stale results", of(telemetry.MetricStaleResults), red, rules.DoubleRunSuspected,
			"Results that were refused because another owner had the key, or somebody has settled it.",
			"without a recovery hook the action has probably run twice: look at the other side for two effects."),
		danger(4, "Leases lost", of(telemetry.MetricLeasesLost), red, rules.LeaseLost,
			"Leases lost while the action ran. Another owner may run it too.",
			"read the reason in the log line; expired means that this process or its way to the store stood still."),
		danger(4, "Unguarded runs", unwanted(), red, rules.UnguardedRuns,
			"Actions that ran without a reservation because the store failed or the guard is switched off. Those of the Run mode "+
				"are left out.",
			"a duplicate of these calls has its effect again: mend the store, or switch the guard on."),
		danger(3, "Became held", of(telemetry.MetricHolds), orange, rules.KeysHeld,
			"Keys that became held: an effect may have happened and nobody knows. Nothing is paid twice, a customer waits.",
			"list them with Guard.List and settle each with Operation.Resolve."),
		danger(3, "Outcome unknown", unknownCalls(), orange, rules.OutcomesUnknown,
			"Calls that were turned away because an earlier outcome is unknown.",
			"settle the held keys; retries change nothing before that."),
		danger(3, "Rejected", rejectedCalls(), orange, rules.StorageErrorBudgetBurn,
			"Calls that were turned away because the store failed, or the guard drains: what is not paid.",
			"see the row of the store; one that drains is a deployment."),
		danger(3, "Not stored", of(telemetry.MetricUnstoredResults), orange, rules.ResultsNotStored,
			"Results that the caller has and the store has not. The next call with the key has the effect again.",
			"the reason says whether the result is too large, does not encode, or the store failed."),
	}
}

func dangerByOperation() panel {
	counted := func(counter string) query {
		return query{expr: sum(inRange(counter), byOperation), instant: true}
	}
	bad := func(title, color string) column { return column{title, count, none(color), true} }
	return panel{
		kind: kindTable, title: "Which operation", unit: count, width: 14, height: 8,
		shows: "The same by operation, and the age of its oldest lease in lengths of its lease.",
		good:  "every cell is green.",
		act:   "choose the operation above, and go on with the rows below.",
		queries: []query{
			counted(of(telemetry.MetricStaleResults)),
			counted(of(telemetry.MetricLeasesLost)),
			counted(unwanted()),
			counted(of(telemetry.MetricHolds)),
			counted(unknownCalls()),
			counted(rejectedCalls()),
			counted(of(telemetry.MetricUnstoredResults)),
			{expr: oldestLease(), instant: true},
		},
		columns: []column{
			bad("Stale", red), bad("Lost", red), bad("Unguarded", red), bad("Held", orange), bad("Unknown", orange),
			bad("Rejected", orange), bad("Not stored", orange),
			{"Oldest lease", count, over(rules.OldLeases/2, rules.OldLeases), true},
		},
	}
}

func dangerOverTime() panel {
	total := func(counter, legend string) query { return query{expr: sum(inStep(counter)), legend: legend} }
	return panel{
		kind: kindBars, title: "Since when", unit: count, width: 10, height: 8, wide: true,
		shows: "The same over time.",
		good:  "nothing to be seen.",
		act: "look for what happened when the first bar begins: a deployment, a failover of the store (storage errors), a " +
			"process that stood still (late renewals).",
		queries: []query{
			total(of(telemetry.MetricStaleResults), "stale"),
			total(of(telemetry.MetricLeasesLost), "lost"),
			total(unwanted(), "unguarded"),
			total(of(telemetry.MetricHolds), "held"),
			total(unknownCalls(), "unknown"),
			total(rejectedCalls(), "rejected"),
			total(of(telemetry.MetricUnstoredResults), "not stored"),
		},
		colors: colors{
			"stale": "dark-red", "lost": red, "unguarded": "light-red", "held": orange, "unknown": "light-orange",
			"not stored": "yellow", "rejected": "blue",
		},
	}
}

// oldestLease is in lengths of the operation's lease, by operation.
func oldestLease() string {
	return maximum(of(telemetry.MetricOldestLeaseAge), byOperation) + " / " +
		maximum(of(telemetry.MetricOperationLease), byOperation)
}

func livingLeases() []panel {
	return []panel{
		{
			kind: kindLines, title: "Leases alive", unit: count, width: 8, height: 8,
			shows:   "Reservations whose action runs now, by operation.",
			good:    "about calls per second times the duration of the action.",
			act:     "growing without more calls: the action or what it calls has become slow.",
			queries: []query{{expr: sum(of(telemetry.MetricLeasesHeld), byOperation), legend: legendOf(byOperation)}},
		},
		{
			kind: kindLines, title: "Oldest lease, in lengths of its lease", unit: count, width: 8, height: 8,
			limits: over(rules.OldLeases/2, rules.OldLeases), runbook: rules.LeaseTooOld,
			shows:   "How long the longest running action has held its key, as a multiple of its operation's lease.",
			good:    "a sawtooth of the action's usual duration. More than 1 is fine: leases are renewed.",
			act:     "a line that only climbs is an action that hangs, and its key blocks every other call.",
			queries: []query{{expr: oldestLease(), legend: legendOf(byOperation)}},
		},
		{
			kind: kindLines, title: "Waiters", unit: count, width: 8, height: 8, runbook: rules.WaitersPilingUp,
			shows:   "Calls that wait for the owner of their key now, by operation.",
			good:    "few, and gone within the duration of an action.",
			act:     "many for one lease: a caller repeats itself. With takeovers beside it: owners died.",
			queries: []query{{expr: sum(of(telemetry.MetricWaiters), byOperation), legend: legendOf(byOperation)}},
		},
		{
			kind: kindBars, title: "Takeovers", unit: count, width: 12, height: 7,
			shows: "Keys taken from an owner that is gone. Evidence: the earlier owner may have had the effect.",
			good:  "none, or a few at a deployment.",
			act: "without deployments, processes die or stand still. With evidence and without a recovery hook the effect may " +
				"have happened before.",
			queries: []query{
				{expr: takeovers("false"), legend: "no evidence of an effect"},
				{expr: takeovers("true"), legend: "evidence of an effect"},
			},
		},
		{
			kind: kindBars, title: "Leases lost by operation", unit: count, width: 12, height: 7, runbook: rules.LeaseLost,
			shows:   "Leases lost while the action ran, by operation.",
			good:    "nothing to be seen.",
			act:     "one operation: its action starves the process or outlives its limit. All: the store or the network.",
			queries: []query{{expr: sum(inStep(of(telemetry.MetricLeasesLost)), byOperation), legend: legendOf(byOperation)}},
		},
	}
}

func takeovers(dispatched string) string {
	return sum(inStep(of(telemetry.MetricTakeovers, is(telemetry.LabelDispatched, dispatched))))
}
