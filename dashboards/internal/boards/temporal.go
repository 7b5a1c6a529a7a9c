package boards

import (
	"fmt"
	"strings"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// Names of the Temporal SDK's own metrics, as its source has them.
const (
	sdkActivityLatency  = "temporal_activity_execution_latency"
	sdkActivityFailed   = "temporal_activity_execution_failed"
	sdkActivityWaited   = "temporal_activity_schedule_to_start_latency"
	sdkActivityEndToEnd = "temporal_activity_succeed_endtoend_latency"
	sdkSlotsUsed        = "temporal_worker_task_slots_used"
	sdkSlotsAvailable   = "temporal_worker_task_slots_available"
	sdkRequest          = "temporal_request"
	sdkRequestFailure   = "temporal_request_failure"

	sdkActivityType = "activity_type"
	sdkWorkerType   = "worker_type"
)

// The endings depend on the metrics handler, so these selectors take each of them: a counter may
// end with _total, a duration with _seconds.

func sdkCounter(name string, matchers ...string) string { return sdkSeries(name+"(_total)?", matchers) }

func sdkDuration(name, part string, matchers ...string) string {
	return sdkSeries(name+"(_seconds)?"+part, matchers)
}

func sdkGauge(name string, matchers ...string) string { return sdkSeries(name, matchers) }

// sdkSeries leaves the variable operation out: to the SDK an operation is a request to its server.
func sdkSeries(name string, matchers []string) string {
	all := append([]string{fmt.Sprintf("__name__=~%q", name), `job=~"$job",instance=~"$instance"`}, matchers...)
	return "{" + strings.Join(all, ",") + "}"
}

const chosenType = sdkActivityType + `=~"$` + sdkActivityType + `"`

// temporal is the board of whoever runs the workers.
func temporal() board {
	return board{
		file: "temporal.json", uid: "onceguard-temporal", title: "onceguard / Temporal activities", temporal: true,
		description: "Guarded activities beside what the Temporal SDK says of them. SDK in a title means the SDK's own metrics. " +
			"They need a metrics handler in client.Options, of contrib/opentelemetry or contrib/tally, with durations as " +
			"histograms in buckets of seconds, which neither has by itself: dashboards/README.md. Names with and without _total and _seconds are " +
			"taken. contrib/tally replaces the dots of an activity type by underscores.",
		rows: []row{
			{"At a glance", temporalGlances()},
			{"Attempts (SDK) and what the guard made of them", attempts()},
			{"Where the time goes", attemptTimes()},
			{"The workers", workers()},
		},
	}
}

func sdkAttempts(by ...string) string {
	return sum(perSecond(sdkDuration(sdkActivityLatency, "_count", chosenType)), by...)
}

// sdkFailures has zeros of the attempts, since the SDK makes the series of a failure with the first one.
func sdkFailures(by ...string) string {
	return sum(perSecond(sdkCounter(sdkActivityFailed, chosenType)), by...) + " or 0 * " + sdkAttempts(by...)
}

// undelivered is what the activity was done for and the server did not take. The next attempt gets
// the stored result.
func undelivered(by ...string) string {
	const respond = `operation=~"RespondActivityTask.+"`
	return sum(perSecond(sdkCounter(sdkRequestFailure, respond)), by...) + " or 0 * " +
		sum(perSecond(sdkCounter(sdkRequest, respond)), by...)
}

func temporalGlances() []panel {
	glance := func(title, unit, expr, shows, good, act string, limits []limit) panel {
		return panel{
			kind: kindStat, title: title, unit: unit, width: 6, height: 4, limits: limits,
			shows: shows, good: good, act: act,
			queries: []query{{expr: expr, legend: title}},
		}
	}
	return []panel{
		glance("Attempts (SDK)", perSec, sdkAttempts(), "Attempts of activities per second, guarded or not.",
			"the usual load.", "0 with workflows waiting: no worker polls. Empty: no metrics handler, see the README.", nil),
		glance("Failed attempts (SDK)", share, shareOf("("+sdkFailures()+")", sdkAttempts()),
			"Share of the attempts that ended with an error, each of which is tried again.", "the usual share.",
			"the panel below says which activities.", over(0.05, 0.2)),
		glance("Effects not repeated", perSec,
			sum(perSecond(of(telemetry.MetricHits))), "Attempts that got the result of an earlier one.",
			"small and steady.", "rising: attempts time out after their effect, or completions do not reach the server.", nil),
		glance("Waiting attempts", count, sum(of(telemetry.MetricWaiters)), "Attempts that wait for another owner of their key.",
			"few.", "each takes a slot of its worker: see Options.MaxWaiting.", over(10, 50)),
	}
}

func attempts() []panel {
	errored := ended(guard.OutcomeFailed, guard.OutcomeInterrupted, guard.OutcomeRefused, guard.OutcomeMismatched,
		guard.OutcomeRejected, guard.OutcomeInvalid, guard.OutcomeCanceled, guard.OutcomeUnknown)
	return []panel{
		{
			kind: kindLines, title: "Attempts by activity type (SDK)", unit: perSec, width: 12, height: 8,
			shows:   "Attempts per second, guarded or not.",
			good:    "the usual load.",
			act:     "more attempts than workflows start is retries: see the failures.",
			queries: []query{{expr: sdkAttempts(sdkActivityType), legend: legendOf(sdkActivityType)}},
		},
		{
			kind: kindStack, title: "Guarded attempts by outcome", unit: perSec, width: 12, height: 8,
			shows: "How guarded attempts ended. The operation is the activity type, unless a rule names it.",
			good:  "executed; replayed where attempts are tried again.",
			act: "refused: two attempts at once, the earlier one still runs. pending: completed later. unknown: nobody knows " +
				"whether an earlier attempt had its effect.",
			queries: []query{{expr: callsBy(telemetry.LabelOutcome), legend: legendOf(telemetry.LabelOutcome)}},
			colors:  outcomeColors(),
		},
		{
			kind: kindLines, title: "Failed attempts by activity type (SDK)", unit: perSec, width: 12, height: 8,
			shows:   "Attempts that ended with an error.",
			good:    "the usual rate.",
			act:     "compare with the panel beside it: what is in both comes through the guard.",
			queries: []query{{expr: sdkFailures(sdkActivityType), legend: legendOf(sdkActivityType)}},
		},
		{
			kind: kindStack, title: "Guarded attempts that ended with an error", unit: perSec, width: 12, height: 8,
			shows: "By outcome: failed is the activity's own error, the others are the guard's.",
			good:  "failed alone.",
			act: "rejected: the store. refused: shorten nothing, the attempt before still runs. unknown: the workflow must " +
				"reconcile. interrupted: cancellations and worker shutdowns.",
			queries: []query{{expr: sum(errored, telemetry.LabelOutcome), legend: legendOf(telemetry.LabelOutcome)}},
			colors:  outcomeColors(),
		},
	}
}

func attemptTimes() []panel {
	sdk := func(title, metric, shows, good, act string) panel {
		return panel{
			kind: kindLines, title: title, unit: seconds, width: 12, height: 8, shows: shows, good: good, act: act,
			queries: []query{{
				expr: quantile(0.95, sdkDuration(metric, bucket, chosenType), sdkActivityType), legend: legendOf(sdkActivityType),
			}},
		}
	}
	return []panel{
		sdk("Attempts, 95th percentile (SDK)", sdkActivityLatency, "How long an attempt takes, with all that the guard does.",
			"a few milliseconds more than the action beside it.",
			"much more than the action: waits, or a slow store. Always 4.75 s: buckets for milliseconds, see the README."),
		{
			kind: kindLines, title: "Guarded actions, 95th percentile", unit: seconds, width: 12, height: 8,
			shows: "How long the action itself takes, by operation. The dots lead to traces.",
			good:  "steady.",
			act:   "near the activity's StartToClose timeout, attempts end after their effect and before their result.",
			queries: []query{{
				expr: quantile(0.95, of(telemetry.MetricActionDuration+bucket), byOperation), legend: legendOf(byOperation),
				exemplars: true,
			}},
		},
		sdk("From scheduled to started, 95th percentile (SDK)", sdkActivityWaited, "How long a task waits for a worker.",
			"milliseconds.", "seconds: too few slots or workers; waiting attempts take slots as well."),
		sdk("From scheduled to done, 95th percentile (SDK)", sdkActivityEndToEnd,
			"How long a successful attempt takes with its wait for a worker.",
			"a little more than an attempt.", "much more: see the panel beside it."),
	}
}

func workers() []panel {
	const activities = sdkWorkerType + `="ActivityWorker"`
	return []panel{
		{
			kind: kindLines, title: "Activity slots (SDK) and waiting attempts", unit: count, width: 8, height: 8,
			shows: "Slots of the activity workers, and how many attempts wait for another owner.",
			good:  "free slots; few of those in use by attempts that wait.",
			act:   "no slot is free and most wait: lower Options.MaxWaiting, or find who repeats the key.",
			queries: []query{
				{expr: sum(sdkGauge(sdkSlotsUsed, activities)), legend: "in use"},
				{expr: sum(sdkGauge(sdkSlotsAvailable, activities)), legend: "free"},
				{expr: sum(of(telemetry.MetricWaiters)), legend: "waiting (guard)"},
			},
		},
		{
			kind: kindBars, title: "Completions that the server did not take (SDK)", unit: perSec, width: 8, height: 8,
			shows:   "Requests of workers to complete or fail an attempt that failed. Its result is stored: the next attempt gets it.",
			good:    "nothing to be seen. NotFound is an attempt that had timed out.",
			act:     "without the guard each of these repeats its effect. Look at the way to the server, and at the timeouts.",
			queries: []query{{expr: undelivered("operation"), legend: legendOf("operation")}},
		},
		{
			kind: kindLines, title: "Effects not repeated, by operation", unit: perSec, width: 8, height: 8,
			shows: "Attempts that got the result of an earlier one in place of a second effect.",
			good:  "about what the panel beside it shows, and the attempts that timed out.",
			act:   "much more: a workflow or its caller asks for the same key again and again.",
			queries: []query{{
				expr: sum(perSecond(of(telemetry.MetricHits)), byOperation), legend: legendOf(byOperation),
			}},
		},
	}
}
