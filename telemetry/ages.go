package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// leaseAges tells at each scrape how old the oldest held lease of each operation
// is. It is a collector because the age moves by itself.
type leaseAges struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	ops  map[string]*leaseAge
}

func newLeaseAges() *leaseAges {
	return &leaseAges{
		desc: prometheus.NewDesc(MetricOldestLeaseAge,
			"Age of the lease that this process has held longest, 0 when it holds none.",
			[]string{LabelOperation}, nil),
		ops: map[string]*leaseAge{},
	}
}

// of returns the leases of an operation, the same ones for the same name.
func (a *leaseAges) of(operation string) *leaseAge {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ops[operation] == nil {
		a.ops[operation] = newLeaseAge()
	}
	return a.ops[operation]
}

// Describe implements [prometheus.Collector].
func (a *leaseAges) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

// Collect implements [prometheus.Collector].
func (a *leaseAges) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for operation, age := range a.oldest(now) {
		ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, age.Seconds(), operation)
	}
}

// oldest is taken before anything is sent, so that a slow scrape holds no lock.
func (a *leaseAges) oldest(now time.Time) map[string]time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	ages := make(map[string]time.Duration, len(a.ops))
	for operation, leases := range a.ops {
		ages[operation] = leases.oldest(now)
	}
	return ages
}

// leaseAge is a ring of the held leases in the order of their acquisition.
type leaseAge struct {
	mu   sync.Mutex
	ring heldLease // its next is the oldest, its prev the youngest
}

// heldLease is part of its call, so that holding a lease allocates nothing.
type heldLease struct {
	prev, next *heldLease
	since      time.Time
}

func newLeaseAge() *leaseAge {
	l := &leaseAge{}
	l.ring.prev, l.ring.next = &l.ring, &l.ring
	return l
}

func (l *leaseAge) add(h *heldLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.next != nil {
		return // in the ring already
	}
	h.since = time.Now()
	h.prev, h.next = l.ring.prev, &l.ring
	h.prev.next, h.next.prev = h, h
}

func (l *leaseAge) remove(h *heldLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.next == nil {
		return
	}
	h.prev.next, h.next.prev = h.next, h.prev
	h.prev, h.next = nil, nil
}

func (l *leaseAge) oldest(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring.next == &l.ring {
		return 0
	}
	return max(0, now.Sub(l.ring.next.since))
}
