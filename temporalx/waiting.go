package temporalx

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/guard"
)

// An activity that waits for another owner: how long it may, and how many may at once.

const (
	defaultSlots   = 1000 // of a worker whose options name no number
	unknownSlots   = 100  // of a worker that does not know its number itself, or whose options are not seen
	waitersOfSlots = 2    // one in so many may wait

	marginOfAttempt = 10 // one part in so many of an attempt's time is left for its run
	maxMargin       = 5 * time.Second
)

var errWorkerStops = errors.New("the worker stops")

// waiters bounds how many activities of a worker wait at once, so that they never fill all
// its slots. Local activities have slots of their own.
type waiters struct{ activities, local places }

type places struct {
	limit int64
	taken atomic.Int64
}

func (p *places) take() bool {
	if p.taken.Add(1) <= p.limit {
		return true
	}
	p.taken.Add(-1)
	return false
}

func (p *places) leave() { p.taken.Add(-1) }

// newWaiters makes the bounds of a worker: as many as were set, else a share of its slots.
func newWaiters(set, slots, localSlots int) *waiters {
	w := &waiters{}
	w.activities.limit, w.local.limit = int64(slots/waitersOfSlots), int64(localSlots/waitersOfSlots)
	if set > 0 {
		w.activities.limit, w.local.limit = int64(set), int64(set)
	}
	return w
}

// waitersOf makes those of a worker whose options are known.
func waitersOf(set int, o *worker.Options) *waiters {
	slots, local := o.MaxConcurrentActivityExecutionSize, o.MaxConcurrentLocalActivityExecutionSize
	if slots == 0 {
		slots = defaultSlots
	}
	if local == 0 {
		local = defaultSlots
	}
	if o.Tuner != nil {
		slots, local = maxSlots(o.Tuner.GetActivityTaskSlotSupplier()), maxSlots(o.Tuner.GetLocalActivitySlotSupplier())
	}
	return newWaiters(set, slots, local)
}

func maxSlots(s worker.SlotSupplier) int {
	if isNil(s) || s.MaxSlots() <= 0 {
		return unknownSlots
	}
	return s.MaxSlots()
}

// forWorker is the interceptor with the places of one worker.
func (w *Interceptor) forWorker(o *worker.Options) *Interceptor {
	own := *w
	own.waiters, own.throttle = waitersOf(w.maxWaiting, o), throttleOf(o)
	return &own
}

// waiting are the options of a guard's call of an attempt that may have to wait. If it does, its
// vigil is put into kept.
func (w *Interceptor) waiting(ctx context.Context, info activity.Info, kept **vigil) []guard.CallOption {
	options := []guard.CallOption{guard.CancelReason(causeOf), guard.OnWait(func(ctx context.Context) (waits context.Context, over func()) {
		waits, over, *kept = w.beginWait(ctx, info)
		return waits, over
	})}
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		margin := w.margin
		if margin == 0 {
			margin = min(left/marginOfAttempt, maxMargin)
		}
		options = append(options, guard.WaitAtMost(left-margin))
	}
	return options
}

// beginWait takes a place among those who wait, and begins the heartbeats. It returns nothing
// when the attempt must not wait.
func (w *Interceptor) beginWait(ctx context.Context, info activity.Info) (waits context.Context, over func(), v *vigil) {
	place := &w.waiters.activities
	if info.IsLocalActivity {
		place = &w.waiters.local
	}
	if !place.take() {
		return nil, nil, nil
	}
	v = &vigil{done: make(chan struct{})}
	if info.HeartbeatTimeout > 0 && !info.IsLocalActivity {
		v.first, v.every = w.intervals(info.HeartbeatTimeout)
		if !v.remember(ctx) {
			place.leave()
			return nil, nil, nil
		}
	}
	waits, wake := context.WithCancelCause(ctx)
	go watch(waits, activity.GetWorkerStopChannel(ctx), wake)
	go v.keep(ctx, waits)
	return waits, func() {
		wake(nil)
		v.end()
		place.leave()
	}, v
}
