package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotDispatched is what [Dispatched] returns when the mark is not known to be set:
// the effect must not be let out. An action that returns it in its error, and the mark was never set,
// is taken at its word: its key is released, unless the failure policy says something else.
var ErrNotDispatched = errors.New("onceguard: not marked as dispatched, the effect must not be let out")

// How far the dispatch of a run is.
const (
	notDispatched   int32 = iota
	maybeDispatched       // a mark was asked for, and the action was not told that it is set
	isDispatched
)

// Dispatched marks the run of the action whose context this is: from now on its effect
// may be out in the world. The action of an operation with [MarkDispatch] calls it
// right before it sends its request, and sends nothing unless it returns nil, which it
// does only on the store's word. It costs a call of the store, the first time.
//
// Where a run counts as dispatched from its reservation on it returns nil at once, unless the
// lease is lost. All its errors match [ErrNotDispatched]; the others that they match
// are [ErrLeaseLost], the store's own, or that of the context. It returns one outside of an action, in a run without a
// reservation, and in an operation that has no use for it.
func Dispatched(ctx context.Context) error {
	r := runningFrom(ctx)
	switch {
	case r == nil || r.ended.Load():
		return fmt.Errorf("%w: this is not the context of a guarded action that runs", ErrNotDispatched)
	case r.held == nil:
		return fmt.Errorf("%w: the action runs without a reservation", ErrNotDispatched)
	case !r.held.c.op.protects():
		return fmt.Errorf("%w: the operation has none of MarkDispatch, AtMostOnce and WithRecovery", ErrNotDispatched)
	}
	if err := r.held.dispatch(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotDispatched, err)
	}
	return nil
}

func (h *heldLease) dispatch(ctx context.Context) error {
	select {
	case <-h.lease.lost:
		return ErrLeaseLost
	default:
	}
	if h.at.Load() == isDispatched {
		return nil
	}
	h.at.CompareAndSwap(notDispatched, maybeDispatched)
	err := h.mark(ctx, mark{dispatched: true})
	if err == nil {
		h.at.Store(isDispatched)
	}
	return err
}

// dispatched reports whether the effect may be out. A nil lease is a run without a
// reservation, about which nothing is promised.
func (h *heldLease) dispatched() bool { return h != nil && h.at.Load() != notDispatched }

// unmarked reports whether a mark was asked for and never confirmed.
func (h *heldLease) unmarked() bool { return h != nil && h.at.Load() == maybeDispatched }

func (m mark) and(other mark) mark {
	return mark{m.dispatched || other.dispatched, m.nothingFound || other.nothingFound}
}

// marking asks the renewer for a renewal that sets a mark.
type marking struct {
	mark
	done chan<- error // nil when nobody asked
}

func (m marking) answer(err error) {
	if m.done != nil {
		m.done <- err
	}
}

// mark has the renewer set a mark, and waits for the store's word: one write of an owner is on the wire at a time. A mark that
// the store did not confirm goes with the renewals that follow.
func (h *heldLease) mark(ctx context.Context, m mark) error {
	done := make(chan error, 1)
	select {
	case h.marks <- marking{m, done}:
	case <-h.done:
		return ErrLeaseLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-h.done:
		return ErrLeaseLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// marked takes note of what the store has confirmed. The mark was set at the store's
// time now, from which the lease runs.
func (h *heldLease) marked(until time.Time) {
	if h.want == (mark{}) {
		return
	}
	if h.want.nothingFound && h.own.evidence() {
		h.own.Dispatch = nil
	}
	if h.want.dispatched && h.own.Dispatch == nil {
		h.own.Dispatch = &Dispatch{Owner: h.own.Owner, Fence: h.own.Fence, At: until.Add(-h.c.op.lease)}
	}
	h.want = mark{}
}
