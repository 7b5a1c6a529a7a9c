package telemetry

import (
	"sync"
	"time"
)

// leaseAge is a ring of the held leases in the order of their acquisition.
type leaseAge struct {
	mu   sync.Mutex
	ring heldLease // its next is the oldest, its prev the youngest
	made time.Time
}

// heldLease is part of its call, so that holding a lease allocates nothing.
type heldLease struct {
	prev, next *heldLease
	since      time.Duration // from the making of the ring
}

func newLeaseAge() *leaseAge {
	l := &leaseAge{made: time.Now()}
	l.ring.prev, l.ring.next = &l.ring, &l.ring
	return l
}

func (l *leaseAge) add(h *heldLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.next != nil {
		return // in the ring already
	}
	h.since = time.Since(l.made)
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
	return max(0, now.Sub(l.made)-l.ring.next.since)
}
