package guard

import (
	"cmp"
	"encoding/hex"
	"slices"
	"sync"
	"time"
)

// LeaseInfo is what a process knows of a reservation that it holds. All times are of its
// own clock.
type LeaseInfo struct {
	Operation string
	Key       Key    // in clear
	KeyHash   string // as spans and logs show it, see [Guard.KeyHash]
	Owner     string // the label of this process, see [WithOwnerLabel]
	Fence     int64
	Attempt   int           // 1 for the first acquisition of the key
	Since     time.Time     // when the reserve was sent that acquired the key
	RenewedAt time.Time     // when the last acknowledged reserve or renewal was sent
	Lease     time.Duration // how long the reservation lives without a renewal
	Left      time.Duration // of the lease at the moment of the snapshot, negative when it is over
	// Lost means that the loss of the lease was reported: another owner may run the action
	// now. It stays so also if a later renewal finds that nobody has taken the key.
	Lost          bool
	Dispatched    bool   // the effect may be out in the world, see [AtMostOnce] and [Dispatched]
	TookOver      bool   // the key was taken from an owner that is gone
	PreviousOwner string // the label of that owner
	TraceID       string // of the call, 32 hexadecimal digits; empty without a trace
}

// Leases returns the reservations that this guard holds at this moment, the most
// endangered first: those whose loss was reported, then those with the smallest share of their
// lease left. A reservation is there from its acquisition until its result is stored or its key
// released, while the action or the recovery hook runs, as in the metric of held leases; not while
// a result that the store has not taken is tried again behind its caller. What runs unguarded has
// none. It asks only this process, not the store: [Guard.List] does that.
//
// It is safe for use by many goroutines and holds up no call. A nil guard has no leases.
func (g *Guard) Leases() []LeaseInfo {
	if g == nil {
		return nil
	}
	held := g.leases.snapshot()
	infos, now := make([]LeaseInfo, len(held)), time.Now()
	for i, h := range held {
		infos[i] = h.info(now)
	}
	slices.SortFunc(infos, moreEndangered)
	return infos
}

// OwnerLabel is how this process calls itself, see [WithOwnerLabel]. That of a nil guard is
// empty.
func (g *Guard) OwnerLabel() string {
	if g == nil {
		return ""
	}
	return g.label
}

// moreEndangered compares by the share of the lease, not by the time left: a short lease is
// not in danger because it is short.
func moreEndangered(a, b LeaseInfo) int {
	if a.Lost != b.Lost {
		if a.Lost {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(float64(a.Left)/float64(a.Lease), float64(b.Left)/float64(b.Lease)),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Fence, b.Fence),
	)
}

// leases are the reservations that a guard holds, in a list that is threaded through them, so
// that holding one allocates nothing. The zero value has none.
type leases struct {
	mu    sync.Mutex
	first *heldLease
	count int
}

// add takes in a lease, and what its action is a part of.
func (l *leases) add(h *heldLease, r *running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.run, h.next = r, l.first
	if h.next != nil {
		h.next.prev = h
	}
	l.first = h
	l.count++
}

// remove takes out a lease that was added, once.
func (l *leases) remove(h *heldLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.prev == nil && l.first != h {
		return
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		l.first = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
	l.count--
}

// snapshot is all that the lock is held for: what is read of a lease then is atomic, or was
// set before it was added.
func (l *leases) snapshot() []*heldLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make([]*heldLease, 0, l.count)
	for h := l.first; h != nil; h = h.next {
		held = append(held, h)
	}
	return held
}

func (h *heldLease) info(now time.Time) LeaseInfo {
	op, made := h.c.op, &h.run.own
	info := LeaseInfo{
		Operation:  op.name,
		Key:        h.run.key,
		KeyHash:    op.keyHash.shown(h.run.key),
		Owner:      made.Owner.Label,
		Fence:      made.Fence,
		Attempt:    made.Attempt,
		Since:      h.since,
		RenewedAt:  *h.lastOK.Load(),
		Lease:      op.lease,
		Left:       h.end().Sub(now),
		Lost:       h.isLost(),
		Dispatched: h.dispatched.maybeOut(),
		TraceID:    traceID(made.Owner.TraceParent),
	}
	if made.TookOver != nil {
		info.TookOver, info.PreviousOwner = true, made.TookOver.Owner.Label
	}
	return info
}

func (h *heldLease) isLost() bool {
	select {
	case <-h.lease.lost:
		return true
	default:
		return false
	}
}

// maybeOut reports whether the effect may be out, also when the action has come back and its
// end is yet to be written.
func (d *dispatch) maybeOut() bool {
	switch d.at.Load() {
	case maybeDispatched, isDispatched:
		return true
	case dispatchClosed:
		return d.told.Load() || d.refused.Load()
	}
	return false
}

// traceID is that of a W3C trace context, or empty: an observer may have returned anything.
func traceID(traceParent string) string {
	const from, to = 3, 35
	if len(traceParent) < to+1 || traceParent[from-1] != '-' || traceParent[to] != '-' {
		return ""
	}
	id := traceParent[from:to]
	raw, err := hex.DecodeString(id)
	if err != nil || !slices.ContainsFunc(raw, func(b byte) bool { return b != 0 }) {
		return ""
	}
	return id
}
