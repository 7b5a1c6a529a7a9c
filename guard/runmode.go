package guard

import "context"

// The Run mode: no reservation, a look before the action and one after it.

// lookUp finds a result, or lets the action run.
func (c *call) lookUp(ctx context.Context) (Outcome, error) {
	loaded, err := c.load(ctx)
	if err != nil {
		return c.storeFailed(ctx, PhaseLoad, err)
	}
	if rec := loaded.Record; rec.Status == StatusPending && rec.Dispatch != nil && loaded.Left <= 0 {
		return c.unknownOutcome(ctx, rec, 0)
	}
	if loaded.Found && (loaded.Left > 0 || loaded.Record.Status == StatusUnknown) && loaded.Record.Status != StatusReleased {
		if outcome, done, err := c.judge(ctx, &ReserveReply{Record: loaded.Record, Left: loaded.Left}); done {
			return outcome, err
		}
	}
	return c.runWithout(ctx, ReasonInFlight)
}

// takeEarlier returns the result that landed while this call's action ran. If
// there is none that can be read, the call keeps its own.
func (c *call) takeEarlier(ctx context.Context) {
	loaded, err := c.loadAfter(ctx)
	if err == nil && !c.request.Fingerprint.differs(loaded.Record.Fingerprint) {
		c.take(loaded.Record)
	}
}

// take makes the result of a record that of the call, if it can be read.
func (c *call) take(rec Record) {
	if rec.Status != StatusCompleted {
		return
	}
	if _, err := c.decoded(rec); err == nil {
		c.ran, c.executedAt = rec, rec.Updated
	}
}
