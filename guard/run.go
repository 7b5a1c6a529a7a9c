package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// run runs the action, under the lease if the key is ours, and settles what it
// left. It settles also when the action panics or exits its goroutine; the stack
// goes on unwinding then, with the same panic value, since nothing recovers it.
func (c *call) run(ctx context.Context, as Outcome) (outcome Outcome, err error) {
	outcome, err = OutcomeFailed, ErrActionUnwound
	actionCtx, this := ctx, &running{guard: c.op.guard, key: c.key, around: c.around}
	defer this.ended.Store(true)
	var held *heldLease
	if as == OutcomeExecuted {
		actionCtx, held = c.hold(ctx)
		this.lease = held.lease
		defer c.obs.event(ctx, Event{Kind: EventEnded, Record: &c.own})
	}
	defer func() {
		c.settle(ctx, held, err)
		switch {
		case c.kept:
			outcome = OutcomePending
		case err == nil:
			outcome = as
		}
	}()
	err = c.act(context.WithValue(actionCtx, runningKey{}, this))
	return outcome, err
}

// act runs the action and tells the observer how long it took.
func (c *call) act(ctx context.Context) error {
	err, start := ErrActionUnwound, time.Now()
	defer func() {
		c.obs.event(ctx, Event{Kind: EventActionEnded, Err: err, Duration: time.Since(start)})
	}()
	err = c.action(ctx)
	return err
}

// settle stores the result, or frees the key when there is none. What the store
// answers does not reach the caller: the effect has happened, or its failure is
// the caller's news. The lease is renewed until the result is encoded, which may
// take its time, and no longer: no renewal lands on top of the result.
func (c *call) settle(ctx context.Context, held *heldLease, actionErr error) {
	if c.own.Owner.Token == "" {
		return // the kill switch is off: nothing was asked of the store
	}
	var result []byte
	storable := false
	defer func() {
		held.stop()
		switch {
		case storable:
			c.store(ctx, held, result)
		case actionErr == nil || !c.keep(ctx, held, actionErr):
			c.giveBack(ctx)
		}
	}()
	if actionErr == nil {
		result, storable = c.encoded(ctx)
	}
}

// encoded returns the result's bytes, or tells why they cannot be stored.
func (c *call) encoded(ctx context.Context) (data []byte, ok bool) {
	err, reason := ErrActionUnwound, ReasonEncoding // stand when the encoding exits the goroutine
	defer func() {
		if err != nil {
			c.obs.event(ctx, Event{Kind: EventUnstored, Reason: reason, Err: err})
		}
	}()
	err = safely(func() (err error) {
		data, err = c.encode()
		return err
	})
	if err == nil && len(data) > c.op.maxResult {
		err, reason = fmt.Errorf("result of %d bytes: over the limit of %d", len(data), c.op.maxResult), ReasonTooLarge
	}
	return data, err == nil
}

// store replaces the reservation with the result.
func (c *call) store(ctx context.Context, held *heldLease, result []byte) {
	reply, err := c.replace(ctx, result)
	if err != nil && held != nil {
		c.storeBehind(ctx, result)
		return
	}
	c.storedOr(ctx, reply, err)
}

// storedOr tells what became of the result.
func (c *call) storedOr(ctx context.Context, reply ReplaceReply, err error) {
	switch {
	case err != nil:
		c.obs.event(ctx, Event{Kind: EventUnstored, Reason: ReasonStorage, Err: err})
	case reply.Status != ReplaceStale:
	case c.op.onInFlight == Run:
		c.takeEarlier(ctx)
	case c.own.Fence == 0 && c.request.Unreadable != nil:
		// What is in the way is the result that could not be decoded.
	default:
		c.stale = true
		c.obs.event(ctx, Event{Kind: EventStale, Record: &c.own})
	}
}

// storeBehind goes on trying to store a result that the store did not take, until
// the lease runs out: then somebody else may run. The caller has its result and
// does not wait for that; Drain does.
func (c *call) storeBehind(ctx context.Context, result []byte) {
	behind := *c // the caller reads its own
	c.op.guard.calls.more()
	go func() {
		defer c.op.guard.calls.leave()
		pause := c.op.storeTimeout / replaceTries
		for {
			if time.Now().Add(pause).After(behind.leaseEnd) {
				behind.storedOr(ctx, ReplaceReply{}, errLeaseOver)
				return
			}
			<-time.After(pause)
			pause = min(2*pause, c.op.storeTimeout)
			if reply, err := behind.replace(ctx, result); err == nil {
				behind.storedOr(ctx, reply, nil)
				return
			}
		}
	}()
}

// replaceTries is how often the first pause between two tries to store a result
// goes into the store's time limit.
const replaceTries = 16

var errLeaseOver = errors.New("onceguard: the lease ran out before the store took the result")

// giveBack releases the key, unless the mode never takes one.
func (c *call) giveBack(ctx context.Context) {
	if c.op.onInFlight != Run {
		c.release(ctx)
	}
}

// keep reports whether the operation says that the error means a later
// completion. The key then stays reserved, by one last renewal. Nothing is
// released even if that fails: the completion is still to come.
func (c *call) keep(ctx context.Context, held *heldLease, actionErr error) bool {
	if c.op.keepReserved == nil || errors.Is(actionErr, ErrActionUnwound) {
		return false
	}
	var length time.Duration
	var later bool
	_ = safely(func() error {
		length, later = c.op.keepReserved(actionErr)
		return nil
	})
	if !later {
		return false
	}
	if c.op.onInFlight == Run {
		c.kept = true // of nothing: the mode reserves nothing
		return true
	}
	reply, err := c.renew(ctx, c.own, min(max(length, c.op.lease), maxRetention), c.op.storeTimeout)
	switch {
	case err == nil && reply.Status != RenewLost:
		c.kept = true
	case held != nil:
		c.kept = true
		if err == nil {
			held.report(ctx, ReasonTaken)
		}
	}
	return true
}
