package telemetry

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
)

// SeriesPerOperation is how many series one operation adds to a scrape, with
// every bucket of its classic histograms counted. The number is there from the
// moment the operation is made and does not grow, whatever keys and errors come.
const SeriesPerOperation = 278

// series are the metrics of one operation, bound once: nothing is looked up by
// label values while calls run.
type series struct {
	calls         counters[guard.Outcome]
	storageErrors counters[storageFault]
	unguarded     counters[string]
	unstored      counters[string]
	holds         counters[string]
	renewals      counters[string]

	hits, collisions, lost, stale prometheus.Counter
	linesDropped                  prometheus.Counter
	takeovers                     map[bool]prometheus.Counter // by whether there is evidence
	held, waiters                 prometheus.Gauge
	ages                          *leaseAge
	phases                        [numPhases]prometheus.Observer
	remaining, resultBytes        prometheus.Observer

	actionOK, actionError, actionInterrupted prometheus.Observer

	lease time.Duration
}

type storageFault struct {
	phase guard.Phase
	class guard.ErrorClass
}

// counters are the series of one counter by the value of its labels. A value
// that is not known is not counted: labels stay bounded.
type counters[K comparable] map[K]prometheus.Counter

func (c counters[K]) inc(value K) {
	if counter, ok := c[value]; ok {
		counter.Inc()
	}
}

// bind makes every series of an operation, at zero.
func (m *metrics) bind(op guard.OperationInfo) *series {
	name := strings.ToValidUTF8(op.Name, "\uFFFD") // an invalid label value would panic
	m.describe(name, op)
	s := &series{
		calls:             bindAll(m.calls, name, guard.Outcomes()),
		storageErrors:     bindFaults(m.storageErrors, name),
		unguarded:         bindAll(m.unguarded, name, unguardedReasons()),
		unstored:          bindAll(m.unstored, name, unstoredReasons()),
		holds:             bindAll(m.holds, name, heldReasons()),
		renewals:          bindAll(m.renewals, name, renewalResults()),
		hits:              m.hits.WithLabelValues(name),
		collisions:        m.collisions.WithLabelValues(name),
		lost:              m.lost.WithLabelValues(name),
		stale:             m.stale.WithLabelValues(name),
		held:              m.held.WithLabelValues(name),
		waiters:           m.waiters.WithLabelValues(name),
		ages:              m.ages.of(name),
		actionOK:          m.actionDuration.WithLabelValues(name, actionOK),
		actionError:       m.actionDuration.WithLabelValues(name, actionError),
		actionInterrupted: m.actionDuration.WithLabelValues(name, actionInterrupted),
		remaining:         m.remaining.WithLabelValues(name),
		resultBytes:       m.resultBytes.WithLabelValues(name),
		linesDropped:      m.linesDropped.WithLabelValues(name),
		lease:             op.Lease,
	}
	s.takeovers = map[bool]prometheus.Counter{
		true:  m.takeovers.WithLabelValues(name, dispatchedYes),
		false: m.takeovers.WithLabelValues(name, dispatchedNo),
	}
	for i, phase := range timedPhases() {
		s.phases[i] = m.phaseDuration.WithLabelValues(name, string(phase))
	}
	return s
}

func bindAll[K ~string](vec *prometheus.CounterVec, operation string, values []K) counters[K] {
	bound := make(counters[K], len(values))
	for _, v := range values {
		bound[v] = vec.WithLabelValues(operation, string(v))
	}
	return bound
}

func bindFaults(vec *prometheus.CounterVec, operation string) counters[storageFault] {
	bound := counters[storageFault]{}
	for _, phase := range storagePhases() {
		for _, class := range guard.ErrorClasses() {
			bound[storageFault{phase, class}] = vec.WithLabelValues(operation, string(phase), string(class))
		}
	}
	return bound
}

// A nil series is a Telemetry without metrics: every method returns at once.

func (s *series) event(c *call, e guard.Event) {
	if s == nil {
		return
	}
	switch e.Kind {
	case guard.EventAcquired:
		s.acquired(c, e)
	case guard.EventEnded:
		s.held.Dec()
		s.ages.remove(&c.lease)
	case guard.EventHit:
		s.hits.Inc()
	case guard.EventCollision:
		s.collisions.Inc()
	case guard.EventLost:
		s.lost.Inc()
	case guard.EventStale:
		s.stale.Inc()
	case guard.EventUnguarded:
		s.unguarded.inc(e.Reason)
	case guard.EventUnstored:
		s.unstored.inc(e.Reason)
	case guard.EventHeld:
		s.holds.inc(e.Reason)
	case guard.EventStorageError:
		s.storageErrors.inc(storageFault{e.Phase, knownClass(e.Class)})
	case guard.EventActionEnded:
		s.actionEnded(e, c.spanContext)
	case guard.EventMismatch, guard.EventUnknown: // the outcome counts it
	}
}

func (s *series) acquired(c *call, e guard.Event) {
	s.held.Inc()
	s.ages.add(&c.lease)
	if e.Record != nil && e.Record.TookOver != nil {
		s.takeovers[evidence(e.Record) != nil].Inc()
	}
}

func (s *series) actionEnded(e guard.Event, sc trace.SpanContext) {
	observer := s.actionOK
	switch {
	case e.Reason == guard.ReasonInterrupted:
		observer = s.actionInterrupted
	case e.Err != nil:
		observer = s.actionError
	}
	observe(observer, e.Duration.Seconds(), sc)
}

func (s *series) phaseBegan(phase guard.Phase) {
	if s != nil && phase == guard.PhaseWait {
		s.waiters.Inc()
	}
}

func (s *series) phaseEnded(p *phase, end guard.PhaseEnd) {
	if s == nil {
		return
	}
	c := p.call
	observe(s.phases[p.index], (c.elapsed() - p.began).Seconds(), c.spanContext)
	switch p.phase() {
	case guard.PhaseReserve:
		c.leaseFrom.Store(int64(p.began))
	case guard.PhaseWait:
		s.waiters.Dec()
	case guard.PhaseRenew:
		s.renewed(p, end)
	case guard.PhaseReplace:
		s.replaced(end, c.spanContext)
	case guard.PhaseRelease, guard.PhaseRecover, guard.PhaseLoad, guard.PhaseNotify: // timed only, or part of a wait
	case guard.PhaseErase, guard.PhaseResolve, guard.PhaseList: // no part of a call
	}
}

// renewed counts a renewal and, when it landed, how close it came: the lease
// runs from the sending of the reserve or renewal before it.
func (s *series) renewed(p *phase, end guard.PhaseEnd) {
	if end.Err != nil {
		s.renewals.inc(renewalError)
		return
	}
	s.renewals.inc(end.Result)
	if end.Result == string(guard.RenewLost) || s.lease <= 0 {
		return
	}
	used := p.call.elapsed() - time.Duration(p.call.leaseFrom.Swap(int64(p.began)))
	observe(s.remaining, max(0, 1-used.Seconds()/s.lease.Seconds()), p.call.spanContext)
}

// replaced counts the bytes of what was stored. A hold stores nothing: its record is a
// reservation still, without a result.
func (s *series) replaced(end guard.PhaseEnd, sc trace.SpanContext) {
	if end.Err == nil && end.Result != string(guard.ReplaceStale) && end.Record != nil && end.Record.Result != nil {
		observe(s.resultBytes, float64(len(end.Record.Result)), sc)
	}
}

func (s *series) lineDropped() {
	if s != nil {
		s.linesDropped.Inc()
	}
}

func (s *series) callEnded(end guard.CallEnd) {
	if s != nil {
		s.calls.inc(end.Outcome)
	}
}

// observe adds the trace as an exemplar when it is sampled: another one leads
// nowhere.
func observe(o prometheus.Observer, value float64, sc trace.SpanContext) {
	exemplars, ok := o.(prometheus.ExemplarObserver)
	if !ok || !sc.IsSampled() || !sc.HasTraceID() {
		o.Observe(value)
		return
	}
	exemplars.ObserveWithExemplar(value, prometheus.Labels{metricExemplarTraceKey: sc.TraceID().String()})
}
