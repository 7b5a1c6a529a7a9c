package guard

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPoll = 50 * time.Millisecond
	maxPoll   = time.Second
	pollGrows = 1.5
	jitter    = 0.2 // a poll comes up to this share early, so that waiters spread
)

// waiter is a call that waits for another owner.
type waiter struct {
	c    *call
	poll time.Duration
	// seen is the last answer of the store about the key, leaseEnd when the lease
	// it spoke of runs out, on this process's clock: good enough to choose when to
	// look again, and never used to decide that a key is free.
	seen     ReserveReply
	leaseEnd time.Time
	changed  <-chan struct{} // nil without notification
	draining <-chan struct{} // nil in an action that Drain waits for
}

// wait waits until the key has a result or is free for this call, or the wait
// bound passes, or the caller leaves, or those who take part end the wait by its own
// context.
func (c *call) wait(ctx, waits context.Context, seen ReserveReply) (outcome Outcome, err error) {
	phaseCtx, phase := c.obs.phase(ctx, PhaseWait)
	w := &waiter{c: c, poll: firstPoll}
	if !c.around.partOf(c.op.guard) {
		w.draining = c.op.guard.calls.draining
	}
	defer func() { phase.end(PhaseEnd{Result: string(outcome), Record: &w.seen.Record}) }()
	w.see(seen)
	// A watched key is looked at once more before the first sleep: what happened
	// before the watch began gave no notice.
	watched, stop := w.watch(phaseCtx)
	defer stop()
	for ; ; watched = false {
		if !watched && !w.sleep(waits) {
			return w.left(ctx, waits)
		}
		if outcome, done, err := w.look(ctx, phaseCtx); done {
			return outcome, err
		}
	}
}

// beginWait asks who takes part in the wait. A nil context says that the call must not wait.
func (c *call) beginWait(ctx context.Context) (waits context.Context, over func()) {
	if c.onWait == nil {
		return ctx, func() {}
	}
	defer contain()
	waits, stop := c.onWait(ctx)
	return waits, func() {
		defer contain()
		if stop != nil {
			stop()
		}
	}
}

// left ends the wait of a call whose caller has left, or whose guard drains.
func (w *waiter) left(ctx, waits context.Context) (Outcome, error) {
	if ended(ctx) != nil {
		return OutcomeCanceled, w.c.callerLeft(ctx)
	}
	if ended(waits) != nil {
		return OutcomeCanceled, w.c.callerLeft(waits)
	}
	return w.c.draining()
}

// watch asks the store for notices, if it gives any. Without them the poll is
// enough.
func (w *waiter) watch(ctx context.Context) (watched bool, stop func()) {
	notifier, ok := w.c.op.guard.store.(Notifier)
	if !ok {
		return false, func() {}
	}
	bounded, cancel := w.c.before(ctx)
	defer cancel()
	changed, stop, err := notifier.Watch(bounded, WatchRequest{Key: w.c.stored})
	if err != nil {
		w.c.failed(ctx, PhaseNotify, err)
		return false, func() {}
	}
	w.changed = changed
	return true, stop
}

// look asks the store once. A failing store is no reason to give up while the
// owner that was last seen may still live and there is time to wait: a blip must
// not let all waiters run beside it.
func (w *waiter) look(ctx, phaseCtx context.Context) (Outcome, bool, error) {
	atBound := !time.Now().Before(w.c.waitTo)
	reply, phase, err := w.ask(ctx, phaseCtx, atBound)
	if err != nil {
		if ended(ctx) == nil && !atBound && time.Now().Before(w.leaseEnd) {
			return "", false, nil
		}
		outcome, err := w.c.storeFailed(ctx, phase, err)
		return outcome, true, err
	}
	if outcome, done, err := w.c.judge(ctx, &reply); done {
		return outcome, true, err
	}
	w.see(reply)
	if atBound {
		outcome, err := w.c.refuse(ctx, reply)
		return outcome, true, err
	}
	return "", false, nil
}

// ask looks at the record and reserves when the key looks free, or when the wait
// bound makes it the last chance. Only the store decides whether it is free.
func (w *waiter) ask(ctx, phaseCtx context.Context, last bool) (ReserveReply, Phase, error) {
	if !last {
		loaded, err := w.c.load(phaseCtx)
		if err != nil {
			return ReserveReply{}, PhaseLoad, err
		}
		if !w.c.looksFree(loaded) {
			return ReserveReply{Record: loaded.Record, Left: loaded.Left}, "", nil
		}
	}
	reply, err := w.c.reserve(ctx)
	return reply, PhaseReserve, err
}

// looksFree reports whether a reserve may succeed: nothing there, a tombstone,
// time run out, or a reservation of this call whose reply was lost.
func (c *call) looksFree(loaded LoadReply) bool {
	switch {
	case !loaded.Found, loaded.Record.Status == StatusReleased:
		return true
	case loaded.Record.Status == StatusUnknown:
		return false
	case loaded.Record.Status == StatusHeld:
		return c.op.recovers() && c.settlesIn(loaded.Record, loaded.Left) == 0
	case loaded.Left <= 0, loaded.Record.Kept.before(c.request.Turn):
		return true
	default:
		return loaded.Record.Status == StatusPending && loaded.Record.Owner.Token == c.request.Owner.Token
	}
}

func (w *waiter) see(reply ReserveReply) {
	w.seen, w.leaseEnd = reply, time.Now().Add(reply.Left)
}

// sleep waits for the next look: the poll, sooner when the lease that was last
// seen or the wait bound ends before. It returns false when the caller leaves or
// the guard drains.
func (w *waiter) sleep(ctx context.Context) bool {
	d := w.poll - time.Duration(rand.Float64()*jitter*float64(w.poll)) //nolint:gosec // no secret: it spreads load
	w.poll = min(time.Duration(float64(w.poll)*pollGrows), maxPoll)
	if left := time.Until(w.leaseEnd); left > 0 {
		d = min(d, left+time.Millisecond)
	}
	d = min(d, time.Until(w.c.waitTo))
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ended(ctx) == nil
	case <-ctx.Done():
		return false
	case _, open := <-w.changed:
		if !open {
			w.changed = nil // the store gives no more notice
		}
		return ended(ctx) == nil
	case <-w.draining:
		return false
	}
}
