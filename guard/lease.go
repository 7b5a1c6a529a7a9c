package guard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// heldLease renews a reservation beside the action. One goroutine owns all of
// it; stop is the only other entry. A nil one is an action without a lease.
type heldLease struct {
	c          *call
	own        Record                    // as last acknowledged
	since      time.Time                 // when the reserve was sent
	lastOK     atomic.Pointer[time.Time] // when the last acknowledged reserve or renewal was sent; stop reads it
	retry      time.Duration             // grows while renewals fail near the lease's end
	lost       sync.Once                 // reported
	completed  atomic.Bool               // the run was, while its action goes on
	lease      *Lease                    // what the action sees of it
	cancel     context.CancelCauseFunc   // of the action's context
	want       mark                      // what the next renewal writes beside the lease
	marks      chan marking              // asks for a renewal at once; nil if the operation holds nothing
	dispatched dispatch
	stopping   chan struct{}
	done       chan struct{}
	run        *running   // what the action is a part of, with the reservation as it was made
	prev, next *heldLease // among the leases of the guard, whose lock they need
}

// hold starts the renewals. The context it returns is the action's.
func (c *call) hold(ctx context.Context) (context.Context, *heldLease) {
	h := &heldLease{
		c: c, own: c.own, since: c.sent,
		lease:    &Lease{fence: c.own.Fence, lost: make(chan struct{})},
		stopping: make(chan struct{}), done: make(chan struct{}),
	}
	h.lastOK.Store(&h.since)
	if c.op.holds() {
		h.marks = make(chan marking)
	}
	if c.own.Dispatch != nil {
		h.dispatched.at.Store(isDispatched)
		h.dispatched.told.Store(true) // it need not ask
	}
	actionCtx := ctx
	if c.op.cancelOnLost {
		actionCtx, h.cancel = context.WithCancelCause(ctx)
	}
	go h.loop(ctx, h.since.Add(h.third()))
	return actionCtx, h
}

// stop ends the renewals and waits for the one on the wire, so that it lands
// before the result and never over it. The wait is bounded by the store's time
// limit; a renewal that lands later still finds a completed record or a tombstone
// and changes nothing, nor does it shorten a reservation that was kept.
func (h *heldLease) stop() {
	if h == nil {
		return
	}
	close(h.stopping)
	limit := time.NewTimer(h.c.op.storeTimeout)
	defer limit.Stop()
	select {
	case <-h.done:
		h.c.own = h.own
	case <-limit.C:
	}
	h.c.leaseEnd = h.end()
	if h.cancel != nil {
		h.cancel(nil)
	}
}

// loop renews until it is stopped or the lease is lost.
func (h *heldLease) loop(ctx context.Context, next time.Time) {
	unwound := true
	defer func() {
		if unwound { // an observer has exited the goroutine: go on in another one
			go h.loop(ctx, time.Now().Add(h.third()))
			return
		}
		close(h.done)
	}()
	h.renewals(ctx, next)
	unwound = false
}

func (h *heldLease) renewals(ctx context.Context, next time.Time) {
	for {
		asked, ok := h.sleepUntil(next)
		if !ok {
			return
		}
		if h.hangs() {
			h.letGo(ctx, asked)
			return
		}
		if err := h.wants(asked.mark); err != nil {
			asked.answer(h.own, err)
			continue
		}
		if next, ok = h.renewal(ctx, asked); !ok {
			return
		}
	}
}

// renewal renews once, with the marks that are wanted, and says when the next one is
// due. It returns false when the lease is lost.
func (h *heldLease) renewal(ctx context.Context, asked marking) (next time.Time, goOn bool) {
	err := ErrActionUnwound // of an observer that exits the goroutine
	defer func() { asked.answer(h.own, err) }()
	sent := time.Now()
	own := h.own
	if h.want.nothingFound {
		own.Fingerprint = h.c.request.Fingerprint
	}
	reply, err := h.c.renew(ctx, own, h.c.op.lease, h.limit(sent), h.want)
	switch {
	case err != nil:
		return h.failed(ctx, sent), true
	case reply.Status == RenewLost:
		err = ErrLeaseLost
		if rec, ok := h.c.completedAlready(ctx); ok && rec.settled() {
			h.completed.Store(true)
			h.c.op.guard.leases.remove(h)
		} else {
			h.report(ctx, ReasonTaken)
		}
		return next, false
	}
	h.own.Until, h.retry = reply.Until, 0
	h.confirmed(reply.Until)
	h.lastOK.Store(&sent)
	return sent.Add(h.third()), true
}

// letGo waits for the end of a lease that is renewed no more.
func (h *heldLease) letGo(ctx context.Context, asked marking) {
	for goOn := true; goOn; {
		if asked.done == nil && !time.Now().Before(h.end()) {
			h.report(ctx, ReasonMaxHold)
			return
		}
		asked.answer(h.own, ErrLeaseLost)
		asked, goOn = h.sleepUntil(h.end())
	}
}

// limit is the time limit of a renewal: that of the store, but no longer than the
// lease, so that its end is noticed when it comes.
func (h *heldLease) limit(sent time.Time) time.Duration {
	if left := h.end().Sub(sent); left > 0 {
		return min(h.c.op.storeTimeout, left)
	}
	return h.c.op.storeTimeout
}

// end is when the lease runs out that was last acknowledged.
func (h *heldLease) end() time.Time { return h.lastOK.Load().Add(h.c.op.lease) }

func (h *heldLease) third() time.Duration { return h.c.op.lease / renewalsPerLease }

// hangs reports whether the action has run for longer than it may.
func (h *heldLease) hangs() bool {
	return h.c.op.maxHold > 0 && time.Since(h.since) >= h.c.op.maxHold
}

// failed chooses when to try again: a third of the lease later, sooner with a
// growing pause once less than a third is left, and in time to notice the end.
// After the end it goes on: nobody may have taken the key.
func (h *heldLease) failed(ctx context.Context, sent time.Time) time.Time {
	end := h.end()
	now := time.Now()
	if !now.Before(end) {
		h.report(ctx, ReasonExpired)
		return sent.Add(h.third())
	}
	if end.Sub(now) > h.third() {
		return earlier(sent.Add(h.third()), end)
	}
	h.retry = max(2*h.retry, h.third()/16)
	return earlier(now.Add(h.retry), end)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// report tells once that the lease is lost: the observer, the action that looks
// at its Lease, and the action's context if the operation says so.
func (h *heldLease) report(ctx context.Context, reason string) {
	h.lost.Do(func() {
		close(h.lease.lost)
		if h.cancel != nil {
			h.cancel(ErrLeaseLost)
		}
		h.c.obs.event(ctx, Event{Kind: EventLost, Reason: reason, Record: &h.own})
	})
}

// sleepUntil returns early when a renewal is asked for, and false when the renewals
// are to end.
func (h *heldLease) sleepUntil(t time.Time) (asked marking, goOn bool) {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
	case asked = <-h.marks:
	case <-h.stopping:
		return asked, false
	}
	select {
	case <-h.stopping:
		return asked, false
	default:
		return asked, true
	}
}
