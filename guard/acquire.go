package guard

import (
	"context"
	"fmt"
	"time"
)

// acquire asks for the key and, when another owner has it, does what the
// operation's mode says. It returns without an error executed (the key is ours:
// run), unguarded (run without it) or replayed (the value is there).
func (c *call) acquire(ctx context.Context) (Outcome, error) {
	if c.op.onInFlight == Run {
		return c.lookUp(ctx)
	}
	reply, err := c.reserve(ctx)
	if err != nil {
		return c.storeFailed(ctx, PhaseReserve, err)
	}
	if outcome, done, err := c.judge(ctx, &reply); done {
		return outcome, err
	}
	if c.op.onInFlight == Refuse || !time.Now().Before(c.waitTo) {
		return c.refuse(ctx, reply)
	}
	waits, over := c.beginWait(ctx)
	if waits == nil {
		return c.refuse(ctx, reply)
	}
	defer over()
	return c.wait(ctx, waits, reply)
}

// judge says what a reserve's reply, or a loaded record put as one, means for
// this call. It is not done when another live owner has the key: reply then says
// which, and is a newer one if the store had to be asked again.
func (c *call) judge(ctx context.Context, reply *ReserveReply) (outcome Outcome, done bool, err error) {
	rec := reply.Record
	switch {
	case reply.Acquired:
		outcome, err = c.acquired(ctx, rec)
		return outcome, true, err
	case c.request.Fingerprint.differs(rec.Fingerprint):
		c.obs.event(ctx, Event{Kind: EventMismatch, Record: &rec})
		return OutcomeMismatched, true, fmt.Errorf("onceguard: operation %q: %w: the action did not run; "+
			"use one key for one input", c.op.name, ErrMismatch)
	case rec.settled():
		return c.replay(ctx, reply)
	case rec.Status == StatusHeld:
		return c.foundHeld(ctx, reply)
	}
	if rec.Status == StatusUnknown && (reply.Left <= 0 || reply.Left > c.op.lease) {
		reply.Left = c.op.lease // nobody can read when it ends: look again a lease later
	}
	if !c.collided {
		c.collided = true
		c.obs.event(ctx, Event{Kind: EventCollision, Record: &rec, Left: reply.Left})
	}
	return "", false, nil
}

// acquired begins the ownership, unless the caller has left meanwhile.
func (c *call) acquired(ctx context.Context, rec Record) (Outcome, error) {
	if ended(ctx) != nil {
		c.unknown = true // so that it is given back
		return OutcomeCanceled, c.callerLeft(ctx)
	}
	c.own, c.ran, c.unknown = rec, rec, false
	c.recovering = rec.evidence()
	c.obs.event(ctx, Event{Kind: EventAcquired, Record: &rec})
	return OutcomeExecuted, nil
}

// foundHeld ends a call whose key is held, unless it is worth waiting until the
// recovery hook may be asked: reply then says how long that is.
func (c *call) foundHeld(ctx context.Context, reply *ReserveReply) (Outcome, bool, error) {
	settles := c.settlesIn(reply.Record, reply.Left)
	if c.op.recovers() && c.op.onInFlight == Wait {
		reply.Left = settles
		return "", false, nil
	}
	outcome, err := c.unknownOutcome(ctx, reply.Record, settles)
	return outcome, true, err
}

// settlesIn is how long it takes until the recovery hook may be asked about a held
// record, by the store's clock, of which the time left of the record is a reading.
func (c *call) settlesIn(rec Record, left time.Duration) time.Duration {
	if !c.op.recovers() {
		return 0
	}
	now := rec.Until.Add(-left)
	return max(rec.Updated.Add(c.op.settle).Sub(now), 0)
}

// unknownOutcome ends the call: nobody knows what happened.
func (c *call) unknownOutcome(ctx context.Context, held Record, retryAfter time.Duration) (Outcome, error) {
	c.obs.event(ctx, Event{Kind: EventUnknown, Record: &held})
	return OutcomeUnknown, outcomeUnknown(c.op.name, held, retryAfter, nil)
}

// replay returns a stored result or remembered error, or does with one that cannot be
// decoded what the operation's mode says.
func (c *call) replay(ctx context.Context, reply *ReserveReply) (Outcome, bool, error) {
	rec := reply.Record
	remembered, err := c.decoded(rec)
	if err == nil {
		c.ran, c.executedAt = rec, rec.Updated
		c.obs.event(ctx, Event{Kind: EventHit, Record: &rec})
		return OutcomeReplayed, true, remembered
	}
	c.obs.event(ctx, Event{Kind: EventStorageError, Phase: PhaseLoad, Class: ClassEncoding, Err: err})
	if c.op.onUnreadable == Refuse || c.request.Unreadable != nil {
		return OutcomeRejected, true, c.storageError(PhaseLoad, ClassEncoding, err)
	}
	return c.heal(ctx, reply)
}

// decoded sets the value to a stored result, or returns the error that was
// remembered.
func (c *call) decoded(rec Record) (remembered, err error) {
	want := c.op.encoding()
	if rec.Status == StatusFailed {
		want = c.op.errorEncoding()
	}
	switch {
	case rec.Encoding != want:
		return nil, fmt.Errorf("the result was stored as %q, this operation reads %q", rec.Encoding, want)
	case rec.Status == StatusCompleted:
		return nil, safely(func() error { return c.decode(rec.Result) })
	}
	again := &RememberedError{Operation: c.op.name, At: rec.Updated, Fence: rec.Fence}
	err = safely(func() (err error) {
		again.Err, err = c.op.openError(c.key, rec.Result)
		return err
	})
	return again, err
}

// heal takes the key from a record that cannot be decoded, on the condition that
// it is still the one that was seen: of all the callers that see it, one runs.
func (c *call) heal(ctx context.Context, reply *ReserveReply) (Outcome, bool, error) {
	c.request.Unreadable = &Seen{OwnerToken: reply.Record.Owner.Token, Fence: reply.Record.Fence}
	if c.op.onInFlight == Run {
		outcome, err := c.runWithout(ctx, ReasonInFlight)
		return outcome, true, err
	}
	again, err := c.reserve(ctx)
	if err != nil {
		outcome, err := c.storeFailed(ctx, PhaseReserve, err)
		return outcome, true, err
	}
	*reply = again
	return c.judge(ctx, reply)
}

// refuse tells the caller who has the key.
func (c *call) refuse(ctx context.Context, reply ReserveReply) (Outcome, error) {
	if reply.Record.Status == StatusHeld {
		return c.unknownOutcome(ctx, reply.Record, reply.Left)
	}
	return OutcomeRefused, inProgress(c.op.name, reply.Record, reply.Left)
}

// storeFailed decides what follows when the store failed before the action. A
// caller that has left gets its context's error in every mode.
func (c *call) storeFailed(ctx context.Context, phase Phase, err error) (Outcome, error) {
	if ended(ctx) == nil && c.op.onStorageError == FailClosed {
		return OutcomeRejected, c.storageError(phase, Classify(err), err)
	}
	return c.runWithout(ctx, ReasonStorage)
}

func (c *call) storageError(phase Phase, class ErrorClass, err error) error {
	return &StorageError{Operation: c.op.name, Phase: phase, Class: class, Err: err}
}

// runWithout lets the action run without a reservation, unless the caller has
// left.
func (c *call) runWithout(ctx context.Context, reason string) (Outcome, error) {
	if ended(ctx) != nil {
		return OutcomeCanceled, c.callerLeft(ctx)
	}
	c.own = c.unconfirmed()
	c.ran = c.own
	c.obs.event(ctx, Event{Kind: EventUnguarded, Reason: reason})
	return OutcomeUnguarded, nil
}
