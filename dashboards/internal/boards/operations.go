package boards

import (
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/onceguard/onceguard/dashboards/rules"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// operations is the board of whoever owns an operation.
func operations() board {
	return board{
		file: "operations.json", uid: "onceguard-operations", title: "onceguard / Operations",
		description: "What guarded operations do: how calls end, how many get a stored result, how long actions take, what " +
			"results weigh.",
		rows: []row{
			{"At a glance", append(glances(), operationsTable())},
			{"Calls", callPanels()},
			{"Durations", durations()},
			{"Results", results()},
		},
	}
}

func callsBy(labels ...string) string { return sum(perSecond(of(telemetry.MetricCalls)), labels...) }

func ended(outcomes ...guard.Outcome) string {
	words := make([]string, len(outcomes))
	for i, o := range outcomes {
		words[i] = string(o)
	}
	return perSecond(of(telemetry.MetricCalls, isOneOf(telemetry.LabelOutcome, words...)))
}

func outcomeColors() colors {
	return colors{
		string(guard.OutcomeExecuted): green, string(guard.OutcomeReplayed): "blue",
		string(guard.OutcomeRecovered): "light-blue", string(guard.OutcomeFailed): orange,
		string(guard.OutcomeUnguarded): "light-red", string(guard.OutcomeRejected): red,
		string(guard.OutcomeUnknown): "dark-red",
	}
}

func turnedAway() string {
	return ended(guard.OutcomeRefused, guard.OutcomeMismatched, guard.OutcomeRejected, guard.OutcomeInvalid,
		guard.OutcomeUnknown)
}

func glances() []panel {
	glance := func(title, unit, expr, shows, good, act string, limits []limit) panel {
		return panel{
			kind: kindStat, title: title, unit: unit, width: 6, height: 4, limits: limits,
			shows: shows, good: good, act: act,
			queries: []query{{expr: expr, legend: title}},
		}
	}
	return []panel{
		glance("Calls", perSec, callsBy(), "Guarded calls per second.", "the usual load.",
			"0 with load outside: nothing calls the guard, or the scrape fails.", nil),
		glance("Hit ratio", share, shareOf(sum(perSecond(of(telemetry.MetricHits))), callsBy()),
			"Share of the calls that got a stored result: effects that were not repeated.",
			"small and steady: the share of retries and duplicates.",
			"a jump is a caller that repeats itself, or retries after time-outs.", nil),
		glance("Failed", share, shareOf(sum(ended(guard.OutcomeFailed)), callsBy()),
			"Share of the calls whose action ran and failed.", "the usual share of declined and failed effects.",
			"look at the action's own errors in the traces; the guard only passes them on.", over(0.05, 0.2)),
		glance("Turned away", share, shareOf(sum(turnedAway()), callsBy()),
			"Share of the calls whose action did not run: refused, mismatched, rejected, invalid or unknown.",
			"near 0.", "the panel of calls by outcome says which; rejected is the store, mismatched a bug of the caller.",
			over(0.01, 0.05)),
	}
}

func operationsTable() panel {
	each := func(expr string) query { return query{expr: expr, instant: true} }
	hits := sum(perSecond(of(telemetry.MetricHits)), byOperation)
	return panel{
		kind: kindTable, title: "Operations", unit: count, width: 24, height: 8,
		shows: "One line for each operation, with its settings.",
		good:  "operations that move money fail closed; the lease is longer than any stop of a process.",
		act:   "two lines of one operation: processes run it with different settings.",
		queries: []query{
			each(callsBy(byOperation)),
			each(shareOf(hits, callsBy(byOperation))),
			each(shareOf(sum(ended(guard.OutcomeFailed), byOperation), callsBy(byOperation))),
			each(shareOf(sum(turnedAway(), byOperation), callsBy(byOperation))),
			each(shareOf(sum(perSecond(of(telemetry.MetricCollisions)), byOperation), callsBy(byOperation))),
			each(quantile(0.99, of(telemetry.MetricActionDuration+bucket), byOperation)),
			each(maximum(of(telemetry.MetricOperationLease), byOperation)),
			each(sum(of(telemetry.MetricOperationInfo), byOperation, telemetry.LabelOnStorageError, telemetry.LabelOnInFlight)),
		},
		columns: []column{
			{title: "Calls", unit: perSec},
			{title: "Hits", unit: share},
			{"Failed", share, over(0.05, 0.2), true},
			{"Turned away", share, over(0.01, 0.05), true},
			{title: "Collisions", unit: share},
			{title: "Action, p99", unit: seconds},
			{title: "Lease", unit: seconds},
			{title: "Processes", unit: count},
		},
	}
}

func callPanels() []panel {
	return []panel{
		{
			kind: kindStack, title: "Calls by outcome", unit: perSec, width: 12, height: 9,
			shows: "How calls end. Every call has one outcome.",
			good:  "executed, with a share of replayed.",
			act: "unguarded and rejected: the store. unknown: held keys. mismatched: one key for two inputs, a bug of the " +
				"caller. refused: somebody else is at work on the key.",
			queries: []query{{expr: callsBy(telemetry.LabelOutcome), legend: legendOf(telemetry.LabelOutcome)}},
			colors:  outcomeColors(),
		},
		{
			kind: kindLines, title: "Calls by operation", unit: perSec, width: 12, height: 9,
			shows:   "Calls per second of each operation.",
			good:    "the usual load.",
			act:     "a step up without more customers is a caller that repeats itself.",
			queries: []query{{expr: callsBy(byOperation), legend: legendOf(byOperation)}},
		},
		{
			kind: kindLines, title: "Hit ratio", unit: share, width: 8, height: 8,
			shows: "Share of the calls that got a stored result, by operation.",
			good:  "small and steady.",
			act:   "rising: retries after time-outs, or a caller that repeats itself. It is also what the guard has saved.",
			queries: []query{{
				expr:   shareOf(sum(perSecond(of(telemetry.MetricHits)), byOperation), callsBy(byOperation)),
				legend: legendOf(byOperation),
			}},
		},
		{
			kind: kindLines, title: "Collisions", unit: perSec, width: 8, height: 8, runbook: rules.WaitersPilingUp,
			shows: "Calls that found another live owner of their key, by operation.",
			good:  "few.",
			act:   "many: callers give up before the action ends and call again. Make their time-out longer than the action.",
			queries: []query{{
				expr: sum(perSecond(of(telemetry.MetricCollisions)), byOperation), legend: legendOf(byOperation),
			}},
		},
		{
			kind: kindLines, title: "Turned away", unit: perSec, width: 8, height: 8,
			shows:   "Calls whose action did not run, by operation: refused, mismatched, rejected, invalid or unknown.",
			good:    "near 0.",
			act:     "choose the operation, and look at calls by outcome.",
			queries: []query{{expr: sum(turnedAway(), byOperation), legend: legendOf(byOperation)}},
		},
	}
}

func durations() []panel {
	action := of(telemetry.MetricActionDuration + bucket)
	return []panel{
		{
			kind: kindLines, title: "Duration of actions", unit: seconds, width: 12, height: 8,
			shows: "Half, 95 % and 99 % of the actions take at most this long. The dots lead to traces.",
			good:  "steady. An action may take longer than its lease, which is renewed.",
			act:   "a jump is the other side, not the guard: compare with the phases.",
			queries: []query{
				{expr: quantile(0.5, action), legend: "half"},
				{expr: quantile(0.95, action), legend: "95 %"},
				{expr: quantile(0.99, action), legend: "99 %", exemplars: true},
			},
		},
		{
			kind: kindHeatmap, title: "Actions by duration", unit: seconds, width: 12, height: 8,
			shows:   "How many actions took how long.",
			good:    "one band.",
			act:     "a second band far above is time-outs and retries inside the action.",
			queries: []query{{expr: buckets(action), legend: legendOf("le"), exemplars: true}},
		},
		{
			kind: kindLines, title: "Duration of actions by result, 95th percentile", unit: seconds, width: 12, height: 8,
			shows: "Those that succeeded, failed, or gave up because their caller had left (interrupted).",
			good:  "errors are faster than successes. A result that did not occur has no line.",
			act:   "slow errors are time-outs: their outcomes are unknown. Interrupted: callers are less patient than the action.",
			queries: []query{{
				expr: quantile(0.95, action, telemetry.LabelResult), legend: legendOf(telemetry.LabelResult), exemplars: true,
			}},
		},
		{
			kind: kindLines, title: "What the guard adds, 95th percentile", unit: seconds, width: 12, height: 8,
			shows: "Duration of the phases of a call. reserve and replace come on top of every action; renew runs beside it.",
			good:  "milliseconds; wait is as long as the action of the other owner.",
			act:   "all phases slow: the store. wait alone: slow owners, or dead ones whose lease runs out.",
			queries: []query{{
				expr:   quantile(0.95, of(telemetry.MetricPhaseDuration+bucket), telemetry.LabelPhase),
				legend: legendOf(telemetry.LabelPhase), exemplars: true,
			}},
		},
	}
}

func results() []panel {
	return []panel{
		{
			kind: kindHeatmap, title: "Results by size", unit: binary, width: 8, height: 8,
			shows:   "How large stored results are.",
			good:    "well below the size limit of the operation.",
			act:     "results near the limit: store a reference to the result in place of it.",
			queries: []query{{expr: buckets(of(telemetry.MetricResultBytes + bucket)), legend: legendOf("le"), exemplars: true}},
		},
		{
			kind: kindLines, title: "Bytes stored", unit: units.BytesPerSecondIEC, width: 8, height: 8,
			shows: "Bytes of results written per second, by operation. Times the retention is what the store must hold.",
			good:  "times the retention, it fits the store's memory.",
			act:   "shorten the retention, or store references, before the store refuses writes.",
			queries: []query{{
				expr: sum(perSecond(of(telemetry.MetricResultBytes+"_sum")), byOperation), legend: legendOf(byOperation),
			}},
		},
		{
			kind: kindBars, title: "Results not stored", unit: count, width: 8, height: 8, runbook: rules.ResultsNotStored,
			shows: "Results that the caller has and the store has not, by reason.",
			good:  "nothing to be seen.",
			act:   "too_large and encoding come back with every call until the code is mended; storage is the store.",
			queries: []query{{
				expr: sum(inStep(of(telemetry.MetricUnstoredResults)), telemetry.LabelReason), legend: legendOf(telemetry.LabelReason),
			}},
		},
		{
			kind: kindBars, title: "Unguarded runs by reason", unit: count, width: 8, height: 7, runbook: rules.UnguardedRuns,
			shows: "Actions that ran without a reservation: the store failed (storage), the Run mode (in_flight), the kill switch " +
				"(disabled).",
			good: "only in_flight, and only of operations in the Run mode.",
			act:  "storage: mend the store, or fail closed. disabled: somebody has switched the guard off.",
			queries: []query{{
				expr: sum(inStep(of(telemetry.MetricUnguarded)), telemetry.LabelReason), legend: legendOf(telemetry.LabelReason),
			}},
		},
		{
			kind: kindBars, title: "Keys held by reason", unit: count, width: 8, height: 7, runbook: rules.KeysHeld,
			shows: "Keys that became held, by why nobody knows whether the effect has happened.",
			good:  "nothing to be seen.",
			act:   "policy and dispatched: the action's errors. abandoned: processes die. cannot_tell: the recovery hook.",
			queries: []query{{
				expr: sum(inStep(of(telemetry.MetricHolds)), telemetry.LabelReason), legend: legendOf(telemetry.LabelReason),
			}},
		},
		{
			kind: kindBars, title: "Log lines dropped", unit: count, width: 8, height: 7, runbook: rules.LogLinesDropped,
			shows: "Log lines about leases that the handler was too slow for, by operation.",
			good:  "nothing to be seen.",
			act:   "give the logger a handler that does not block.",
			queries: []query{{
				expr: sum(inStep(of(telemetry.MetricLogLinesDropped)), byOperation), legend: legendOf(byOperation),
			}},
		},
	}
}
