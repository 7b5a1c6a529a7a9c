package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrNotDispatched is what [Dispatched] returns when the mark is not known to be set: the effect
// must not be let out. With [MarkDispatch], an action that was never told anything else and returns
// it in its error is taken at its word: its key is released, unless the failure policy says
// something else. One that was refused and fails in another way is not.
var ErrNotDispatched = errors.New("onceguard: not marked as dispatched, the effect must not be let out")

// How far the dispatch of a run is.
const (
	notDispatched   int32 = iota
	maybeDispatched       // the mark is on its way, and the action was not told that it is set
	isDispatched          // from the reservation on, or by a mark that the action was told of
	dispatchClosed        // the action has come back: it is too late for a mark
)

// dispatch is how far a run is, for its action and for who settles it. The zero value
// is a run that has dispatched nothing.
type dispatch struct {
	at      atomic.Int32
	told    atomic.Bool // Dispatched may have returned nil, or need not be asked
	refused atomic.Bool // Dispatched has returned an error
}

// closeDispatch ends the dispatch of a run whose action has come back. It says whether the
// effect may be out, and whether the action was only ever told to let nothing out. A
// nil lease is a run without a reservation, about which nothing is promised.
func (h *heldLease) closeDispatch() (dispatched, obeys bool) {
	if h == nil {
		return false, false
	}
	d := &h.dispatched
	at, refused := d.at.Swap(dispatchClosed), d.refused.Load()
	return at != notDispatched || refused, refused && !d.told.Load()
}

// Dispatched marks the run of the action whose context this is: from now on its effect
// may be out in the world. The action of an operation with [MarkDispatch] calls it
// right before it sends its request, and sends nothing unless it returns nil, which it
// does only on the store's word. It costs a call of the store, the first time.
//
// Where a run counts as dispatched from its reservation on it returns nil at once, unless
// the lease may be over: then it asks the store. While the kill switch of
// [WithEnabled] is off there is nothing to mark, and it returns nil too. All its errors
// match [ErrNotDispatched]; the others that they match are [ErrLeaseLost], the store's
// own, or that of the context. It returns one outside of an action that runs, in a run without a
// reservation, and in an operation that has no use for it.
func Dispatched(ctx context.Context) error {
	r := runningFrom(ctx)
	switch {
	case r == nil || r.ended.Load():
		return fmt.Errorf("%w: this is not the context of a guarded action that runs", ErrNotDispatched)
	case r.disabled:
		return nil
	case r.held == nil:
		return fmt.Errorf("%w: the action runs without a reservation", ErrNotDispatched)
	case !r.held.c.op.protects():
		return fmt.Errorf("%w: the operation has none of MarkDispatch, AtMostOnce and WithRecovery", ErrNotDispatched)
	}
	if err := r.held.dispatch(ctx); err != nil {
		r.held.dispatched.refused.Store(true)
		return fmt.Errorf("%w: %w", ErrNotDispatched, err)
	}
	return nil
}

var errActionOver = errors.New("the action has come back already")

func (h *heldLease) dispatch(ctx context.Context) error {
	select {
	case <-h.lease.lost:
		return ErrLeaseLost
	default:
	}
	d := &h.dispatched
	if d.at.Load() == isDispatched && time.Now().Before(h.end()) {
		return nil
	}
	if _, err := h.mark(ctx, mark{dispatched: true}); err != nil {
		return err
	}
	d.told.Store(true) // before the state that says so
	if !d.at.CompareAndSwap(maybeDispatched, isDispatched) && d.at.Load() != isDispatched {
		return errActionOver
	}
	return nil
}

func (m mark) and(other mark) mark {
	return mark{dispatched: m.dispatched || other.dispatched, nothingFound: m.nothingFound || other.nothingFound}
}

// marking asks the renewer for a renewal that sets a mark.
type marking struct {
	mark
	done chan<- marked // nil when nobody asked
}

// marked is what the store said: the reservation as it is now, unless err is set.
type marked struct {
	own Record
	err error
}

func (m marking) answer(own Record, err error) {
	if m.done != nil {
		m.done <- marked{own, err}
	}
}

// mark has the renewer set a mark, and waits for the store's word: one write of an owner
// is on the wire at a time. A mark that the store did not confirm goes with the renewals
// that follow.
func (h *heldLease) mark(ctx context.Context, m mark) (own Record, err error) {
	done := make(chan marked, 1)
	select {
	case h.marks <- marking{m, done}:
	case <-h.done:
		return own, ErrLeaseLost
	case <-ctx.Done():
		return own, context.Cause(ctx)
	}
	select {
	case said := <-done:
		return said.own, said.err
	case <-h.done:
		return own, ErrLeaseLost
	case <-ctx.Done():
		return own, context.Cause(ctx)
	}
}

// wants takes note of a mark that is asked for, unless the action has come back.
func (h *heldLease) wants(m mark) error {
	if m.dispatched && !m.nothingFound {
		h.dispatched.at.CompareAndSwap(notDispatched, maybeDispatched)
		if h.dispatched.at.Load() == dispatchClosed {
			return errActionOver
		}
	}
	h.want = h.want.and(m)
	return nil
}

// confirmed takes note of what the store has said. The mark was set at the store's
// time now, from which the lease runs.
func (h *heldLease) confirmed(until time.Time) {
	if h.want.nothingFound && h.own.evidence() {
		h.own.Dispatch, h.own.Fingerprint = nil, h.c.request.Fingerprint
	}
	if h.want.dispatched && h.own.Dispatch == nil {
		h.own.Dispatch = &Dispatch{Owner: h.own.Owner, Fence: h.own.Fence, At: until.Add(-h.c.op.lease)}
	}
	h.want = mark{}
}
