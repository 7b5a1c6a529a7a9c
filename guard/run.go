package guard

import (
	"context"
	"time"
)

// run runs the action, under the lease if the key is ours, and settles what it
// left. It settles also when the action panics or exits its goroutine; the stack
// goes on unwinding then, with the same panic value, since nothing recovers it.
func (c *call) run(ctx context.Context, as Outcome) (outcome Outcome, err error) {
	outcome, err = OutcomeFailed, ErrActionUnwound
	actionCtx, this := ctx, &running{guard: c.op.guard, key: c.key, around: c.around, disabled: c.off}
	defer this.ended.Store(true)
	var held *heldLease
	if as == OutcomeExecuted {
		actionCtx, held = c.hold(ctx)
		this.held, this.lease, this.own = held, held.lease, c.own
		c.op.guard.leases.add(held, this)
	}
	defer func() {
		if c.recovering {
			outcome, err = c.notRecovered(ctx, held, outcome, err)
			return
		}
		c.finish(ctx, held, err)
		switch {
		case c.kept:
			outcome = OutcomePending
		case err == nil:
			outcome = as
		case c.gaveUp:
			outcome = OutcomeInterrupted
		}
	}()
	actionCtx = context.WithValue(actionCtx, runningKey{}, this)
	if c.recovering {
		if as, err = c.recover(ctx, actionCtx, held); as != OutcomeExecuted {
			return as, err
		}
		err = ErrActionUnwound
	}
	err = c.act(ctx, actionCtx)
	return outcome, err
}

// finish settles the key and ends the ownership.
func (c *call) finish(ctx context.Context, held *heldLease, actionErr error) {
	if held != nil {
		defer c.obs.event(ctx, Event{Kind: EventEnded, Record: &c.own})
		defer c.op.guard.leases.remove(held)
	}
	c.settle(ctx, held, actionErr)
}

// finishBehind is finish for a caller who may leave meanwhile. It says whether it has
// finished.
func (c *call) finishBehind(ctx context.Context, held *heldLease, actionErr error) bool {
	finished := make(chan struct{})
	c.op.guard.calls.more()
	go func() {
		defer c.op.guard.calls.leave()
		defer close(finished)
		c.finish(ctx, held, actionErr)
	}()
	select {
	case <-finished:
		return true
	case <-ctx.Done():
		return false
	}
}

// act runs the action and tells the observer how long it took.
func (c *call) act(ctx, actionCtx context.Context) error {
	err, start := ErrActionUnwound, time.Now()
	defer func() {
		event := Event{Kind: EventActionEnded, Err: err, Duration: time.Since(start)}
		if c.interrupted(ctx, actionCtx, err) {
			event.Reason = ReasonInterrupted
		}
		c.obs.event(actionCtx, event)
	}()
	err = c.action(actionCtx)
	return err
}
