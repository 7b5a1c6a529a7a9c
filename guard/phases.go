package guard

import (
	"context"
	"errors"
	"time"
)

// The store calls of a call, each with its time limit and its observation.
// Before the action they end with the caller's context; after it they do not.

// before bounds a store call that comes before the action.
func (c *call) before(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.op.storeTimeout)
}

// after bounds a store call that must happen although the caller may have left.
// The context keeps its values: the trace goes on.
func (c *call) after(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), c.op.storeTimeout)
}

func (c *call) reserve(ctx context.Context) (ReserveReply, error) {
	ctx, phase := c.obs.phase(ctx, PhaseReserve)
	bounded, cancel := c.before(ctx)
	defer cancel()
	c.sent = time.Now()
	reply, err := c.op.store.Reserve(bounded, c.request)
	if err != nil {
		c.unknown = c.unknown || !notApplied(err)
		phase.end(c.failed(ctx, PhaseReserve, err))
		return ReserveReply{}, err
	}
	if reply.Held {
		c.obs.event(ctx, Event{Kind: EventHeld, Reason: ReasonAbandoned, Record: &reply.Record})
	}
	result := "acquired"
	if !reply.Acquired {
		result = string(reply.Record.Status)
	}
	phase.end(PhaseEnd{Result: result, Record: &reply.Record})
	return reply, nil
}

func (c *call) load(ctx context.Context) (LoadReply, error) {
	bounded, cancel := c.before(ctx)
	defer cancel()
	reply, err := c.op.store.Load(bounded, LoadRequest{Key: c.stored})
	if err != nil {
		c.failed(ctx, PhaseLoad, err)
	}
	return reply, err
}

// loadAfter is load although the caller may have left.
func (c *call) loadAfter(ctx context.Context) (LoadReply, error) {
	return c.load(context.WithoutCancel(ctx))
}

// mark is what a renewal is to write beside the lease.
type mark struct {
	dispatched, nothingFound bool
	kept                     *Turn // of the last renewal of what is left to a later completion
}

func (c *call) renew(ctx context.Context, own Record, lease, limit time.Duration, as mark) (RenewReply, error) {
	ctx, phase := c.obs.phase(ctx, PhaseRenew)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	reply, err := c.op.store.Renew(bounded, RenewRequest{
		Key: c.stored, Record: own, Lease: lease, Retention: c.op.retention,
		Keep: as.kept, Dispatched: as.dispatched, NothingFound: as.nothingFound, HoldRetention: c.request.HoldRetention,
	})
	if err != nil {
		phase.end(c.failed(ctx, PhaseRenew, err))
		return reply, err
	}
	phase.end(PhaseEnd{Result: string(reply.Status), Record: &own})
	return reply, nil
}

// replace stores a result, or an error that is to be remembered.
func (c *call) replace(ctx context.Context, result []byte, failed bool) (ReplaceReply, error) {
	ctx, phase := c.obs.phase(ctx, PhaseReplace)
	bounded, cancel := c.after(ctx)
	defer cancel()
	req := ReplaceRequest{
		Key: c.stored, Record: c.own, Encoding: c.op.encoding(), Result: result,
		Lease: c.op.lease, Retention: c.op.retention,
	}
	if failed {
		req.Failed, req.Encoding, req.Retention = true, c.op.errorEncoding(), c.op.failureRetention
	}
	reply, err := c.op.store.Replace(bounded, req)
	if err != nil {
		phase.end(c.failed(ctx, PhaseReplace, err))
		return reply, err
	}
	stored := c.own
	stored.Result = result
	phase.end(PhaseEnd{Result: string(reply.Status), Record: &stored})
	return reply, nil
}

// keepHeld makes the key held.
func (c *call) keepHeld(ctx context.Context, reason string) error {
	ctx, phase := c.obs.phase(ctx, PhaseReplace)
	bounded, cancel := c.after(ctx)
	defer cancel()
	reply, err := c.op.store.Hold(bounded, HoldRequest{
		Key: c.stored, Record: c.own, Lease: c.op.lease, Retention: c.op.holdRetention,
	})
	if err != nil {
		phase.end(c.failed(ctx, PhaseReplace, err))
		return err
	}
	phase.end(PhaseEnd{Result: string(reply.Status), Record: &c.own})
	switch reply.Status {
	case HoldRefused:
		c.refused = true
	case HoldHeld, HoldRestored, HoldAgain:
		// Again may be this call's own hold, whose reply was lost: told twice is better
		// than never.
		c.obs.event(ctx, Event{Kind: EventHeld, Reason: reason, Record: &c.own})
	}
	return nil
}

func (c *call) release(ctx context.Context) error {
	own := c.own
	ctx, phase := c.obs.phase(ctx, PhaseRelease)
	bounded, cancel := c.after(ctx)
	defer cancel()
	reply, err := c.op.store.Release(bounded, ReleaseRequest{Key: c.stored, Record: own, Lease: c.op.lease})
	if err != nil {
		phase.end(c.failed(ctx, PhaseRelease, err))
		return err
	}
	result := "released"
	switch {
	case reply.Held:
		result = "held"
		c.obs.event(ctx, Event{Kind: EventHeld, Reason: ReasonCannotTell, Record: &own})
	case !reply.Released:
		result = "not_ours"
		c.refused = true
	}
	phase.end(PhaseEnd{Result: result, Record: &own})
	return nil
}

// failed counts a store call that failed and returns its end. A caller that
// canceled is no failure of the store; one whose deadline passed may well be.
func (c *call) failed(ctx context.Context, phase Phase, err error) PhaseEnd {
	before := phase == PhaseReserve || phase == PhaseLoad || phase == PhaseNotify
	if before && errors.Is(ctx.Err(), context.Canceled) {
		return PhaseEnd{Err: err}
	}
	class := Classify(err)
	c.obs.event(ctx, Event{Kind: EventStorageError, Phase: phase, Class: class, Err: err})
	return PhaseEnd{Err: err, Class: class}
}
