package telemetry

import "slices"

// instrument is one metric under both of its names. The standard translation from OTLP to
// Prometheus makes the first of the second: dots become underscores, the unit and, for a
// counter, total are added at the end.
type instrument struct {
	name   string // on a Prometheus registry
	otel   string // in the OpenTelemetry API
	unit   string // UCUM; only s and By show in the name
	kind   kind
	labels []string // those after the operation, which every metric has
	help   string

	buckets []float64 // of a histogram: upper bounds in the unit
}

func (i instrument) allLabels() []string { return withOperation(LabelOperation, i.labels) }

func withOperation(first string, rest []string) []string { return append([]string{first}, rest...) }

type kind int

const (
	kindCounter   kind = iota
	kindLevel          // a gauge that calls move up and down
	kindReading        // a gauge that is read at each scrape
	kindHistogram      // with classic buckets
	kindDuration       // with classic and native buckets
)

// instruments is the table of all metrics, on whatever they are made.
func instruments() []instrument {
	return slices.Concat(callInstruments(), leaseInstruments(), resultInstruments())
}

func callInstruments() []instrument {
	return []instrument{
		{
			name: MetricCalls, otel: "onceguard.calls", unit: "{call}", kind: kindCounter,
			labels: []string{LabelOutcome},
			help:   "Calls by how they ended.",
		},
		{
			name: MetricOperationInfo, otel: "onceguard.operation.info", kind: kindReading,
			labels: []string{LabelOnStorageError, LabelOnInFlight},
			help:   "Settings of an operation, always 1.",
		},
		{
			name: MetricHits, otel: "onceguard.hits", unit: "{call}", kind: kindCounter,
			help: "Calls that got a stored result.",
		},
		{
			name: MetricCollisions, otel: "onceguard.collisions", unit: "{call}", kind: kindCounter,
			help: "Calls that found their key reserved by another live owner.",
		},
		{
			name: MetricStorageErrors, otel: "onceguard.storage.errors", unit: "{error}", kind: kindCounter,
			labels: []string{LabelPhase, LabelClass},
			help:   "Store calls that failed, absorbed or not.",
		},
		{
			name: MetricUnguarded, otel: "onceguard.unguarded", unit: "{call}", kind: kindCounter,
			labels: []string{LabelReason},
			help:   "Actions that ran without a reservation.",
		},
		{
			name: MetricWaiters, otel: "onceguard.waiters", unit: "{call}", kind: kindLevel,
			help: "Calls that wait for another owner now.",
		},
		{
			name: MetricPhaseDuration, otel: "onceguard.phase.duration", unit: "s", kind: kindDuration,
			labels: []string{LabelPhase}, buckets: phaseBuckets(),
			help: "Duration of the phases of a call, failed ones included.",
		},
		{
			name: MetricActionDuration, otel: "onceguard.action.duration", unit: "s", kind: kindDuration,
			labels: []string{LabelResult}, buckets: actionBuckets(),
			help: "Duration of the guarded action itself.",
		},
	}
}

func leaseInstruments() []instrument {
	return []instrument{
		{
			name: MetricOperationLease, otel: "onceguard.operation.lease", unit: "s", kind: kindReading,
			help: "Lease of an operation.",
		},
		{
			name: MetricLeasesHeld, otel: "onceguard.leases.held", unit: "{lease}", kind: kindLevel,
			help: "Reservations whose action runs in this process now, lost ones included.",
		},
		{
			name: MetricOldestLeaseAge, otel: "onceguard.oldest_lease.age", unit: "s", kind: kindReading,
			help: "Age of the lease that this process has held longest, 0 when it holds none.",
		},
		{
			name: MetricLeaseRenewals, otel: "onceguard.lease.renewals", unit: "{renewal}", kind: kindCounter,
			labels: []string{LabelResult},
			help:   "Renewals of leases by result.",
		},
		{
			name: MetricLeaseRemaining, otel: "onceguard.lease.remaining.ratio", unit: "1", kind: kindHistogram,
			buckets: ratioBuckets(),
			help:    "Share of the lease that was left when a renewal landed.",
		},
		{
			name: MetricLeasesLost, otel: "onceguard.leases.lost", unit: "{lease}", kind: kindCounter,
			help: "Leases lost while the action ran.",
		},
		{
			name: MetricTakeovers, otel: "onceguard.takeovers", unit: "{takeover}", kind: kindCounter,
			labels: []string{LabelDispatched},
			help:   "Keys taken from an owner that is gone, by whether an effect may have been dispatched before.",
		},
	}
}

func resultInstruments() []instrument {
	return []instrument{
		{
			name: MetricStaleResults, otel: "onceguard.stale.results", unit: "{result}", kind: kindCounter,
			help: "Results refused because another owner had the key: evidence of a double run.",
		},
		{
			name: MetricHolds, otel: "onceguard.holds", unit: "{key}", kind: kindCounter,
			labels: []string{LabelReason},
			help:   "Keys held from then on, since an effect may have happened and nobody knows.",
		},
		{
			name: MetricUnstoredResults, otel: "onceguard.unstored.results", unit: "{result}", kind: kindCounter,
			labels: []string{LabelReason},
			help:   "Results returned to the caller but not stored.",
		},
		{
			name: MetricLogLinesDropped, otel: "onceguard.log.lines.dropped", unit: "{line}", kind: kindCounter,
			help: "Log lines that were dropped because the log handler did not keep up.",
		},
		{
			name: MetricResultBytes, otel: "onceguard.result", unit: "By", kind: kindHistogram,
			buckets: byteBuckets(),
			help:    "Size of stored results and remembered errors.",
		},
	}
}
