package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceguard/onceguard/guard"
)

// metrics are the collectors of one registry.
type metrics struct {
	calls          *prometheus.CounterVec
	hits           *prometheus.CounterVec
	collisions     *prometheus.CounterVec
	storageErrors  *prometheus.CounterVec
	unguarded      *prometheus.CounterVec
	renewals       *prometheus.CounterVec
	lost           *prometheus.CounterVec
	takeovers      *prometheus.CounterVec
	stale          *prometheus.CounterVec
	holds          *prometheus.CounterVec
	unstored       *prometheus.CounterVec
	linesDropped   *prometheus.CounterVec
	info           *prometheus.GaugeVec
	lease          *prometheus.GaugeVec
	held           *prometheus.GaugeVec
	waiters        *prometheus.GaugeVec
	ages           *leaseAges
	phaseDuration  *prometheus.HistogramVec
	actionDuration *prometheus.HistogramVec
	remaining      *prometheus.HistogramVec
	resultBytes    *prometheus.HistogramVec

	mu sync.Mutex // held while an operation's settings are replaced
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	r := &registrar{reg: reg}
	m := &metrics{}
	m.registerCalls(r)
	m.registerLeases(r)
	m.registerResults(r)
	return m, r.finish()
}

func (m *metrics) registerCalls(r *registrar) {
	m.calls = r.counter(MetricCalls, "Calls by how they ended.", LabelOutcome)
	m.info = r.gauge(MetricOperationInfo, "Settings of an operation, always 1.",
		LabelOnStorageError, LabelOnInFlight)
	m.hits = r.counter(MetricHits, "Calls that got a stored result.")
	m.collisions = r.counter(MetricCollisions, "Calls that found their key reserved by another live owner.")
	m.storageErrors = r.counter(MetricStorageErrors,
		"Store calls that failed, absorbed or not.", LabelPhase, LabelClass)
	m.unguarded = r.counter(MetricUnguarded, "Actions that ran without a reservation.", LabelReason)
	m.waiters = r.gauge(MetricWaiters, "Calls that wait for another owner now.")
	m.phaseDuration = r.durations(MetricPhaseDuration,
		"Duration of the phases of a call, failed ones included.", phaseBuckets(), LabelPhase)
	m.actionDuration = r.durations(MetricActionDuration,
		"Duration of the guarded action itself.", actionBuckets(), LabelResult)
}

func (m *metrics) registerLeases(r *registrar) {
	m.lease = r.gauge(MetricOperationLease, "Lease of an operation.")
	m.held = r.gauge(MetricLeasesHeld, "Reservations whose action runs in this process now, lost ones included.")
	m.ages = register(r, MetricOldestLeaseAge, newLeaseAges())
	m.renewals = r.counter(MetricLeaseRenewals, "Renewals of leases by result.", LabelResult)
	m.remaining = r.histogram(MetricLeaseRemaining,
		"Share of the lease that was left when a renewal landed.", ratioBuckets())
	m.lost = r.counter(MetricLeasesLost, "Leases lost while the action ran.")
	m.takeovers = r.counter(MetricTakeovers,
		"Keys taken from an owner that is gone, by whether an effect may have been dispatched before.",
		LabelDispatched)
}

func (m *metrics) registerResults(r *registrar) {
	m.stale = r.counter(MetricStaleResults,
		"Results refused because another owner had the key: evidence of a double run.")
	m.holds = r.counter(MetricHolds,
		"Keys held from then on, since an effect may have happened and nobody knows.", LabelReason)
	m.unstored = r.counter(MetricUnstoredResults, "Results returned to the caller but not stored.", LabelReason)
	m.linesDropped = r.counter(MetricLogLinesDropped, "Log lines that were dropped because the log handler did not keep up.")
	m.resultBytes = r.histogram(MetricResultBytes, "Size of stored results and remembered errors.", byteBuckets())
}

// describe sets the gauges that tell an operation's settings. The last operation
// of a name wins, so that there is one series to join with.
func (m *metrics) describe(name string, op guard.OperationInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.info.DeletePartialMatch(prometheus.Labels{LabelOperation: name})
	m.info.WithLabelValues(name, string(op.OnStorageError), string(op.OnInFlight)).Set(1)
	m.lease.WithLabelValues(name).Set(op.Lease.Seconds())
}
