package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// call is one Do. Its steps are prepare, acquire and run; acquire says by its
// outcome whether to run.
type call struct {
	op     *operation
	key    Key
	stored Key                         // the key as the store sees it
	action func(context.Context) error // runs the user's action and keeps its value
	encode func() ([]byte, error)      // of that value
	decode func(data []byte) error     // sets the value
	obs    observed
	waitTo time.Time // the wait bound

	// request is the one that every reserve of this call sends: one owner, one
	// token, so that the store knows a repeat.
	request    ReserveRequest
	sent       time.Time // when the last reserve was sent: its lease counts from here
	unknown    bool      // a reserve failed: it may have acquired the key all the same
	collided   bool
	own        Record // this call's reservation
	ran        Record // the record of the run whose result is returned
	executedAt time.Time
	stale      bool
	kept       bool     // the key stays reserved for a later completion
	around     *running // the action that this call is part of
}

// do runs the steps. The deferred end tells the observer also of an action that
// unwinds the stack: by then no outcome but failed has been set.
func (c *call) do(ctx context.Context, opts []CallOption) (end CallEnd, err error) {
	ctx, c.obs = observeCall(ctx, c.op.observer, CallInfo{Key: c.key, OwnerLabel: c.op.label})
	end.Outcome = OutcomeFailed
	defer func() {
		end.Err, end.Fence, end.Attempt = err, c.ran.Fence, c.ran.Attempt
		if err == nil && end.Outcome == OutcomeFailed { // nothing has set another: the stack unwinds
			end.Err = ErrActionUnwound
		}
		c.obs.end(end)
	}()
	if !c.op.guard.calls.enter() {
		end.Outcome, err = c.draining()
		return end, err
	}
	defer c.op.guard.calls.leave()
	if err = c.prepare(ctx, opts); err != nil {
		end.Outcome = OutcomeInvalid
		return end, err
	}
	outcome, err := c.acquire(ctx)
	if err != nil || outcome == OutcomeReplayed {
		end.Outcome = outcome
		return end, err
	}
	err = c.run(ctx, outcome == OutcomeExecuted)
	switch {
	case c.kept:
		end.Outcome = OutcomePending
	case err == nil:
		end.Outcome = outcome
	}
	return end, err
}

// prepare checks the call before anything is asked of the store.
func (c *call) prepare(ctx context.Context, opts []CallOption) error {
	var config callConfig
	for _, o := range opts {
		if o != nil {
			o.applyCall(&config)
		}
	}
	if err := checkName(c.key.Name); err != nil {
		return fmt.Errorf("onceguard: operation %q: %w: %w", c.op.name, ErrInvalidKey, err)
	}
	if ctx.Err() != nil {
		return canceledError(ctx, c.op.name)
	}
	c.around = runningFrom(ctx)
	if c.around.within(c.op.guard, c.key) {
		return fmt.Errorf("onceguard: operation %q: %w: use another key for the inner effect", c.op.name, ErrNestedCall)
	}
	c.stored = c.op.stored(c.key)
	c.waitTo = time.Now().Add(c.op.waitBound)
	c.request = ReserveRequest{
		Key:       c.stored,
		Owner:     Owner{Token: newToken(), Label: c.op.label, TraceParent: c.obs.traceParent()},
		Lease:     c.op.lease,
		Retention: c.op.retention,
	}
	var err error
	if c.request.Fingerprint, err = config.fingerprinted(); err != nil {
		return fmt.Errorf("onceguard: operation %q: %w", c.op.name, err)
	}
	return nil
}

// acquire asks for the key and, when another owner has it, does what the
// operation's mode says. It returns without an error executed (the key is ours:
// run), unguarded (run without it) or replayed (the value is there).
func (c *call) acquire(ctx context.Context) (Outcome, error) {
	if c.disabled() {
		c.obs.event(ctx, Event{Kind: EventUnguarded, Reason: ReasonDisabled})
		return OutcomeUnguarded, nil
	}
	if c.op.onInFlight == Run {
		return c.lookUp(ctx)
	}
	reply, err := c.reserve(ctx)
	if err != nil {
		return c.storeFailed(ctx, PhaseReserve, err)
	}
	if outcome, done, err := c.judge(ctx, reply); done {
		return outcome, err
	}
	if c.op.onInFlight == Refuse {
		return c.refuse(reply)
	}
	return c.wait(ctx, reply)
}

// disabled asks the kill switch. One that panics guards.
func (c *call) disabled() (off bool) {
	if c.op.enabled == nil {
		return false
	}
	defer contain()
	return !c.op.enabled()
}

// draining refuses a call while the guard drains.
func (c *call) draining() (Outcome, error) {
	return OutcomeRejected, fmt.Errorf("onceguard: operation %q: %w: the action did not run", c.op.name, ErrDraining)
}

// judge says what a reserve's reply, or a loaded record put as one, means for
// this call. It is not done when another live owner has the key.
func (c *call) judge(ctx context.Context, reply ReserveReply) (outcome Outcome, done bool, err error) {
	rec := reply.Record
	switch {
	case reply.Acquired:
		outcome, err = c.acquired(ctx, rec)
		return outcome, true, err
	case c.request.Fingerprint.differs(rec.Fingerprint):
		c.obs.event(ctx, Event{Kind: EventMismatch, Record: &rec})
		return OutcomeMismatched, true, fmt.Errorf("onceguard: operation %q: %w: the action did not run; "+
			"use one key for one input", c.op.name, ErrMismatch)
	case rec.Status == StatusCompleted:
		return c.replay(ctx, rec)
	}
	if !c.collided {
		c.collided = true
		c.obs.event(ctx, Event{Kind: EventCollision, Record: &rec, Left: reply.Left})
	}
	return "", false, nil
}

// acquired begins the ownership, unless the caller has left meanwhile.
func (c *call) acquired(ctx context.Context, rec Record) (Outcome, error) {
	c.own, c.ran = rec, rec
	if ctx.Err() != nil {
		c.releaseBehind(ctx)
		return OutcomeCanceled, canceledError(ctx, c.op.name)
	}
	c.obs.event(ctx, Event{Kind: EventAcquired, Record: &rec})
	return OutcomeExecuted, nil
}

// replay returns a stored result, or does with one that cannot be decoded what
// the operation's mode says.
func (c *call) replay(ctx context.Context, rec Record) (Outcome, bool, error) {
	err := c.decoded(rec)
	if err == nil {
		c.ran, c.executedAt = rec, rec.Updated
		c.obs.event(ctx, Event{Kind: EventHit, Record: &rec})
		return OutcomeReplayed, true, nil
	}
	c.obs.event(ctx, Event{Kind: EventStorageError, Phase: PhaseLoad, Class: ClassEncoding, Err: err})
	if c.op.onUnreadable == Refuse || c.request.Unreadable != nil {
		return OutcomeRejected, true, c.storageError(PhaseLoad, ClassEncoding, err)
	}
	return c.heal(ctx, rec)
}

// decoded sets the value to a stored result.
func (c *call) decoded(rec Record) error {
	if rec.Encoding != c.op.encoding() {
		return fmt.Errorf("the result was stored as %q, this operation reads %q", rec.Encoding, c.op.encoding())
	}
	return safely(func() error { return c.decode(rec.Result) })
}

// heal takes the key from a record that cannot be decoded, on the condition that
// it is still the one that was seen: of all the callers that see it, one runs.
func (c *call) heal(ctx context.Context, rec Record) (Outcome, bool, error) {
	if c.op.onInFlight == Run {
		outcome, err := c.runWithout(ctx, ReasonInFlight)
		return outcome, true, err
	}
	c.request.Unreadable = &Seen{OwnerToken: rec.Owner.Token, Fence: rec.Fence}
	reply, err := c.reserve(ctx)
	if err != nil {
		outcome, err := c.storeFailed(ctx, PhaseReserve, err)
		return outcome, true, err
	}
	return c.judge(ctx, reply)
}

// refuse tells the caller who has the key.
func (c *call) refuse(reply ReserveReply) (Outcome, error) {
	return OutcomeRefused, inProgress(c.op.name, reply.Record, reply.Left)
}

// storeFailed decides what follows when the store failed before the action. A
// caller that has left gets its context's error in every mode.
func (c *call) storeFailed(ctx context.Context, phase Phase, err error) (Outcome, error) {
	if ctx.Err() != nil {
		return c.canceled(ctx)
	}
	if c.op.onStorageError == FailClosed {
		c.abandonUnknown(ctx)
		return OutcomeRejected, c.storageError(phase, Classify(err), err)
	}
	return c.runWithout(ctx, ReasonStorage)
}

// runWithout lets the action run without a reservation.
func (c *call) runWithout(ctx context.Context, reason string) (Outcome, error) {
	c.own = c.unconfirmed()
	c.ran = c.own
	c.obs.event(ctx, Event{Kind: EventUnguarded, Reason: reason})
	return OutcomeUnguarded, nil
}

func (c *call) storageError(phase Phase, class ErrorClass, err error) error {
	return &StorageError{Operation: c.op.name, Phase: phase, Class: class, Err: err}
}

// run runs the action, under the lease if the key is ours, and settles what it
// left. It settles also when the action panics or exits its goroutine; the stack
// goes on unwinding then, with the same panic value, since nothing recovers it.
func (c *call) run(ctx context.Context, reserved bool) error {
	err := ErrActionUnwound
	actionCtx, running := ctx, &running{guard: c.op.guard, key: c.key, around: c.around}
	if reserved {
		var held *heldLease
		actionCtx, held = c.hold(ctx)
		running.lease = held.lease
		defer c.obs.event(ctx, Event{Kind: EventEnded, Record: &c.own})
		defer func() { c.settle(ctx, err) }()
		defer held.stop()
	} else {
		defer func() { c.settle(ctx, err) }()
	}
	err = c.act(context.WithValue(actionCtx, runningKey{}, running))
	return err
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
// the caller's news.
func (c *call) settle(ctx context.Context, actionErr error) {
	if c.own.Owner.Token == "" {
		return // the kill switch is off: nothing was asked of the store
	}
	if actionErr != nil {
		if !c.keep(ctx, actionErr) {
			c.giveBack(ctx)
		}
		return
	}
	result, reason, err := c.encoded()
	if err != nil {
		c.obs.event(ctx, Event{Kind: EventUnstored, Reason: reason, Err: err})
		c.giveBack(ctx)
		return
	}
	reply, err := c.replace(ctx, result)
	switch {
	case err != nil:
		c.obs.event(ctx, Event{Kind: EventUnstored, Reason: ReasonStorage, Err: err})
	case reply.Status == ReplaceStale && c.op.onInFlight == Run:
		c.takeEarlier(ctx)
	case reply.Status == ReplaceStale:
		c.stale = true
		c.obs.event(ctx, Event{Kind: EventStale, Record: &c.own})
	}
}

// giveBack releases the key, unless the mode never takes one.
func (c *call) giveBack(ctx context.Context) {
	if c.op.onInFlight != Run {
		c.release(ctx)
	}
}

// keep leaves the key reserved, by one last renewal, when the operation says that
// the error means a later completion.
func (c *call) keep(ctx context.Context, actionErr error) bool {
	if c.op.keepReserved == nil || errors.Is(actionErr, ErrActionUnwound) {
		return false
	}
	var length time.Duration
	_ = safely(func() error {
		length, c.kept = c.op.keepReserved(actionErr)
		return nil
	})
	if c.kept {
		_, _ = c.renew(ctx, c.own, min(max(length, minLease), maxLease))
	}
	return c.kept
}

// encoded returns the result's bytes, or why they cannot be stored.
func (c *call) encoded() (data []byte, reason string, err error) {
	err = safely(func() (err error) {
		data, err = c.encode()
		return err
	})
	if err != nil {
		return nil, ReasonEncoding, err
	}
	if len(data) > c.op.maxResult {
		return nil, ReasonTooLarge, fmt.Errorf("result of %d bytes: over the limit of %d", len(data), c.op.maxResult)
	}
	return data, "", nil
}

// canceled ends a call whose caller left before the action.
func (c *call) canceled(ctx context.Context) (Outcome, error) {
	c.abandonUnknown(ctx)
	return OutcomeCanceled, canceledError(ctx, c.op.name)
}

// abandonUnknown gives back, in the background, a key that a reserve whose reply
// was lost may have acquired, so that a retry does not meet its own ghost.
func (c *call) abandonUnknown(ctx context.Context) {
	if c.unknown {
		c.own = c.unconfirmed()
		c.releaseBehind(ctx)
	}
}

// releaseBehind releases without making the caller wait. Drain waits for it.
func (c *call) releaseBehind(ctx context.Context) {
	c.op.guard.calls.more()
	go func() {
		defer c.op.guard.calls.leave()
		c.release(ctx)
	}()
}

// unconfirmed is this call's reservation when the store has not confirmed it.
func (c *call) unconfirmed() Record {
	return Record{
		Version: SchemaVersion, Status: StatusPending,
		Owner: c.request.Owner, Fingerprint: c.request.Fingerprint,
	}
}
