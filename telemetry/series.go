package telemetry

import (
	"strings"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// SeriesPerOperation is how many series one operation adds to a scrape, with
// every bucket of its classic histograms counted. The number is there from the
// moment the operation is made and does not grow, whatever keys and errors come.
// With a MeterProvider it is the most that there can be: a histogram is there from
// its first value on.
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

	hits, collisions, lost, stale counter
	linesDropped                  counter
	takeovers                     map[bool]counter // by whether there is evidence
	held, waiters                 level
	ages                          *leaseAge
	phases                        [numPhases]histogram
	remaining, resultBytes        histogram

	actionOK, actionError, actionInterrupted histogram

	lease time.Duration
}

type storageFault struct {
	phase guard.Phase
	class guard.ErrorClass
}

// counters are the series of one counter by the value of its labels. A value
// that is not known is not counted: labels stay bounded.
type counters[K comparable] map[K]counter

func (cs counters[K]) inc(c *call, value K) {
	if counter, ok := cs[value]; ok {
		counter.inc(c)
	}
}

// bind makes every series of an operation, at zero.
func bind(b backend, op guard.OperationInfo) *series {
	name := strings.ToValidUTF8(op.Name, "\uFFFD") // an invalid label value would panic
	b.readings(MetricOperationInfo).set(name, 1, string(op.OnStorageError), string(op.OnInFlight))
	b.readings(MetricOperationLease).set(name, op.Lease.Seconds())
	s := &series{
		calls:             bindAll(b, MetricCalls, name, guard.Outcomes()),
		storageErrors:     bindFaults(b, name),
		unguarded:         bindAll(b, MetricUnguarded, name, unguardedReasons()),
		unstored:          bindAll(b, MetricUnstoredResults, name, unstoredReasons()),
		holds:             bindAll(b, MetricHolds, name, heldReasons()),
		renewals:          bindAll(b, MetricLeaseRenewals, name, renewalResults()),
		hits:              b.counter(MetricHits, name),
		collisions:        b.counter(MetricCollisions, name),
		lost:              b.counter(MetricLeasesLost, name),
		stale:             b.counter(MetricStaleResults, name),
		held:              b.level(MetricLeasesHeld, name),
		waiters:           b.level(MetricWaiters, name),
		ages:              b.readings(MetricOldestLeaseAge).leases(name),
		actionOK:          b.histogram(MetricActionDuration, name, actionOK),
		actionError:       b.histogram(MetricActionDuration, name, actionError),
		actionInterrupted: b.histogram(MetricActionDuration, name, actionInterrupted),
		remaining:         b.histogram(MetricLeaseRemaining, name),
		resultBytes:       b.histogram(MetricResultBytes, name),
		linesDropped:      b.counter(MetricLogLinesDropped, name),
		lease:             op.Lease,
	}
	s.takeovers = map[bool]counter{
		true:  b.counter(MetricTakeovers, name, dispatchedYes),
		false: b.counter(MetricTakeovers, name, dispatchedNo),
	}
	for i, phase := range timedPhases() {
		s.phases[i] = b.histogram(MetricPhaseDuration, name, string(phase))
	}
	return s
}

func bindAll[K ~string](b backend, metric, operation string, values []K) counters[K] {
	bound := make(counters[K], len(values))
	for _, v := range values {
		bound[v] = b.counter(metric, operation, string(v))
	}
	return bound
}

func bindFaults(b backend, operation string) counters[storageFault] {
	bound := counters[storageFault]{}
	for _, phase := range storagePhases() {
		for _, class := range guard.ErrorClasses() {
			bound[storageFault{phase, class}] = b.counter(MetricStorageErrors, operation, string(phase), string(class))
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
		s.held.add(c, -1)
		s.ages.remove(&c.lease)
	case guard.EventHit:
		s.hits.inc(c)
	case guard.EventCollision:
		s.collisions.inc(c)
	case guard.EventLost:
		s.lost.inc(c)
	case guard.EventStale:
		s.stale.inc(c)
	case guard.EventUnguarded:
		s.unguarded.inc(c, e.Reason)
	case guard.EventUnstored:
		s.unstored.inc(c, e.Reason)
	case guard.EventHeld:
		s.holds.inc(c, e.Reason)
	case guard.EventStorageError:
		s.storageErrors.inc(c, storageFault{e.Phase, knownClass(e.Class)})
	case guard.EventActionEnded:
		s.actionEnded(c, e)
	case guard.EventMismatch, guard.EventUnknown: // the outcome counts it
	}
}

func (s *series) acquired(c *call, e guard.Event) {
	s.held.add(c, 1)
	s.ages.add(&c.lease)
	if e.Record != nil && e.Record.TookOver != nil {
		s.takeovers[evidence(e.Record) != nil].inc(c)
	}
}

func (s *series) actionEnded(c *call, e guard.Event) {
	observer := s.actionOK
	switch {
	case e.Reason == guard.ReasonInterrupted:
		observer = s.actionInterrupted
	case e.Err != nil:
		observer = s.actionError
	}
	observer.observe(c, e.Duration.Seconds())
}

func (s *series) phaseBegan(c *call, phase guard.Phase) {
	if s != nil && phase == guard.PhaseWait {
		s.waiters.add(c, 1)
	}
}

func (s *series) phaseEnded(p *phase, end guard.PhaseEnd) {
	if s == nil {
		return
	}
	c := p.call
	s.phases[p.index].observe(c, (c.elapsed() - p.began).Seconds())
	switch p.phase() {
	case guard.PhaseReserve:
		c.leaseFrom.Store(int64(p.began))
	case guard.PhaseWait:
		s.waiters.add(c, -1)
	case guard.PhaseRenew:
		s.renewed(p, end)
	case guard.PhaseReplace:
		s.replaced(c, end)
	case guard.PhaseRelease, guard.PhaseRecover, guard.PhaseLoad, guard.PhaseNotify: // timed only, or part of a wait
	case guard.PhaseErase, guard.PhaseResolve, guard.PhaseList: // no part of a call
	}
}

// renewed counts a renewal and, when it landed, how close it came: the lease
// runs from the sending of the reserve or renewal before it.
func (s *series) renewed(p *phase, end guard.PhaseEnd) {
	if end.Err != nil {
		s.renewals.inc(p.call, renewalError)
		return
	}
	s.renewals.inc(p.call, end.Result)
	if end.Result == string(guard.RenewLost) || s.lease <= 0 {
		return
	}
	used := p.call.elapsed() - time.Duration(p.call.leaseFrom.Swap(int64(p.began)))
	s.remaining.observe(p.call, max(0, 1-used.Seconds()/s.lease.Seconds()))
}

// replaced counts the bytes of what was stored. A hold stores nothing: its record is a
// reservation still, without a result.
func (s *series) replaced(c *call, end guard.PhaseEnd) {
	if end.Err == nil && end.Result != string(guard.ReplaceStale) && end.Result != string(guard.ReplaceSettled) && end.Record != nil && end.Record.Result != nil {
		s.resultBytes.observe(c, float64(len(end.Record.Result)))
	}
}

func (s *series) lineDropped() {
	if s != nil {
		s.linesDropped.inc(nil)
	}
}

func (s *series) callEnded(c *call, end guard.CallEnd) {
	if s != nil {
		s.calls.inc(c, end.Outcome)
	}
}
