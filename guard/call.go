package guard

import (
	"context"
	"fmt"
	"time"
)

// call is one Do. Its steps are prepare, acquire and run; acquire says by its
// outcome whether to run.
type call struct {
	op     *operation
	key    Key
	stored Key                                     // the key as the store sees it
	action func(context.Context) error             // runs the user's action and keeps its value
	encode func() ([]byte, error)                  // of that value
	decode func(data []byte) error                 // sets the value
	ask    func(context.Context, Evidence) finding // the recovery hook, nil if there is none
	obs    observed
	waitTo time.Time // the wait bound
	onWait func(context.Context) (context.Context, func())
	names  func(cause error) string // why the caller left, nil if nobody knows

	// request is the one that every reserve of this call sends: one owner, one
	// token, so that the store knows a repeat.
	request    ReserveRequest
	sent       time.Time // when the last reserve was sent: its lease counts from here
	unknown    bool      // a reserve failed: it may have acquired the key, or do so yet
	collided   bool
	leaseEnd   time.Time // when the lease runs out that was last acknowledged, on this process's clock
	own        Record    // this call's reservation, or what it would be; zero when nothing was asked for
	ran        Record    // the record of the run whose result is returned
	executedAt time.Time
	stale      bool
	kept       bool     // the key stays reserved for a later completion
	off        bool     // the kill switch
	recovered  bool     // the hook found the result
	nothing    bool     // the hook has found nothing, and the evidence is not known to be cleared yet
	refused    bool     // a hold or a release was refused: somebody else has the key, or has settled it
	left       error    // why the caller left, of a call that ends because of that
	completes  bool     // it is a completion that comes later, and runs nothing
	behind     bool     // it goes on behind its caller, whose result it must not touch
	settled    bool     // the owner's own result was there already
	gaveUp     bool     // the action has, since the caller had left
	recovering bool     // the key was taken over and nobody knows yet what its last owner did
	around     *running // the action that this call is part of
}

// do runs the steps. The deferred end tells the observer also of an action that
// unwinds the stack: by then no outcome but failed has been set. Drain waits for
// it too.
func (c *call) do(ctx context.Context, opts []CallOption) (end CallEnd, err error) {
	ctx, c.obs = observeCall(ctx, c.op.observer, c.op.callInfo(c.key))
	c.around = runningFrom(ctx)
	entered := c.op.guard.calls.enter(c.around.partOf(c.op.guard))
	if entered {
		defer c.op.guard.calls.leave()
	}
	end.Outcome = OutcomeFailed
	defer func() {
		end.Err, end.Fence, end.Attempt = err, c.ran.Fence, c.ran.Attempt
		if err == nil && end.Outcome == OutcomeFailed { // nothing has set another: the stack unwinds
			end.Err = ErrActionUnwound
		}
		if end.Outcome == OutcomeCanceled || end.Outcome == OutcomeInterrupted {
			end.Reason = c.reason()
		}
		c.obs.end(end)
	}()
	if !entered {
		end.Outcome, err = c.draining()
		return end, err
	}
	end.Outcome, err = c.steps(ctx, opts)
	return end, err
}

// steps returns the outcome, or failed with the action's error.
func (c *call) steps(ctx context.Context, opts []CallOption) (Outcome, error) {
	var config callConfig
	for _, o := range opts {
		if o != nil {
			o.applyCall(&config)
		}
	}
	c.names = config.reason
	if c.disabled() {
		c.obs.event(ctx, Event{Kind: EventUnguarded, Reason: ReasonDisabled})
		c.off = true
		return c.run(ctx, OutcomeUnguarded)
	}
	if err := c.prepare(config); err != nil {
		return OutcomeInvalid, err
	}
	if ended(ctx) != nil {
		return OutcomeCanceled, c.callerLeft(ctx)
	}
	outcome, err := c.acquire(ctx)
	if err != nil || outcome == OutcomeReplayed {
		c.abandonUnknown(ctx)
		return outcome, err
	}
	return c.run(ctx, outcome)
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

// prepare checks the call before anything is asked of the store.
func (c *call) prepare(config callConfig) error {
	if err := c.op.checkKey(c.key.Name); err != nil {
		return err
	}
	if c.around.within(c.op.guard, c.key) {
		return fmt.Errorf("onceguard: operation %q: %w: use another key for the inner effect", c.op.name, ErrNestedCall)
	}
	c.stored = c.op.stored(c.key)
	bound := c.op.waitBound
	if config.waitAtMost != nil {
		bound = min(bound, *config.waitAtMost)
	}
	c.waitTo, c.onWait = time.Now().Add(bound), config.onWait
	c.request = ReserveRequest{
		Key:       c.stored,
		Owner:     Owner{Token: newToken(), Label: c.op.label, TraceParent: c.obs.traceParent()},
		Lease:     c.op.lease,
		Retention: c.op.retention,
	}
	if c.op.holds() {
		c.request.Dispatched, c.request.Recovers = c.op.dispatchesAtOnce(), c.op.recovers()
		c.request.Settle, c.request.HoldRetention = c.op.settle, c.op.holdRetention
	}
	if err := config.turn.check(); err != nil {
		return fmt.Errorf("onceguard: operation %q: %w", c.op.name, err)
	}
	c.request.Turn = config.turn
	var err error
	if c.request.Fingerprint, err = config.fingerprinted(); err != nil {
		return fmt.Errorf("onceguard: operation %q: %w", c.op.name, err)
	}
	return nil
}

// unconfirmed is this call's reservation when the store has not confirmed it.
func (c *call) unconfirmed() Record {
	return Record{
		Version: SchemaVersion, Status: StatusPending,
		Owner: c.request.Owner, Fingerprint: c.request.Fingerprint,
	}
}

// abandonUnknown gives back a key that a reserve whose reply was lost may have
// acquired, now or when it lands, so that a retry does not meet its own ghost. A
// caller that is still there waits for that, as long as a single store call may
// take in all.
func (c *call) abandonUnknown(ctx context.Context) {
	if !c.unknown {
		return
	}
	c.own = c.unconfirmed()
	released := make(chan struct{})
	c.op.guard.calls.more()
	go func() {
		defer c.op.guard.calls.leave()
		defer close(released)
		// The lease of what did not dispatch anything ends by itself.
		if c.release(ctx) != nil && c.request.Dispatched {
			c.giveBackBehind(ctx)
		}
	}()
	limit := time.NewTimer(time.Until(c.sent.Add(c.op.storeTimeout)))
	defer limit.Stop()
	select {
	case <-released:
	case <-limit.C:
	case <-ctx.Done():
	}
}
