package temporalx

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/guard"
)

// An activity that waits for another owner: how long it may, how many may at once, what keeps
// it alive meanwhile, and what wakes it.

const (
	defaultSlots   = 1000 // of a worker whose options name no number
	unknownSlots   = 100  // of a worker that does not know its number itself, or whose options are not seen
	waitersOfSlots = 2    // one in so many may wait

	marginOfAttempt = 10 // one part in so many of an attempt's time is left for its run
	maxMargin       = 5 * time.Second

	// A heartbeat that comes sooner after another one than 0.8 of the timeout, or a minute
	// (both the SDK's), would be kept back by the SDK and sent later, perhaps behind one of
	// the activity itself.
	heartbeatShare = 0.81
	maxHeartbeat   = time.Minute + time.Second
	firstHeartbeat = 3 // the first one comes after a part in so many of the timeout
	maxFirst       = 20 * time.Second
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
	return &Interceptor{
		operations: w.operations, payloads: w.payloads,
		waiters: waitersOf(w.maxWaiting, o), maxWaiting: w.maxWaiting, margin: w.margin,
	}
}

// waiting are the options of a guard's call of an attempt that may have to wait, and that
// then has waited.
func (w *Interceptor) waiting(ctx context.Context, info activity.Info, waited *bool) []guard.CallOption {
	options := []guard.CallOption{guard.OnWait(func(ctx context.Context) (context.Context, func()) {
		waits, over := w.beginWait(ctx, info)
		*waited = waits != nil
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

// beginWait takes a place among those who wait, and begins the heartbeats. It returns nil
// when the attempt must not wait.
func (w *Interceptor) beginWait(ctx context.Context, info activity.Info) (context.Context, func()) {
	place := &w.waiters.activities
	if info.IsLocalActivity {
		place = &w.waiters.local
	}
	if !place.take() {
		return nil, nil
	}
	v := &vigil{stopping: make(chan struct{}), done: make(chan struct{})}
	if info.HeartbeatTimeout > 0 && !info.IsLocalActivity {
		v.timeout = info.HeartbeatTimeout
		if !v.remember(ctx) {
			place.leave()
			return nil, nil
		}
	}
	waits, wake := context.WithCancelCause(ctx)
	go v.keep(waits, activity.GetWorkerStopChannel(ctx), wake)
	return waits, func() {
		v.end()
		wake(nil)
		place.leave()
	}
}

// vigil is beside an attempt that waits: it heartbeats, and wakes it when the worker stops.
// That the attempt was canceled, paused or reset comes with the heartbeats, and ends its context.
type vigil struct {
	timeout  time.Duration // 0: no heartbeats
	details  []any         // of the attempt before, sent again as they are
	stopping chan struct{}
	done     chan struct{}
}

// maxDetails bounds how many values of a heartbeat are looked for.
const maxDetails = 1 << 10

// remember reads the details that the server has, without a detour over Go types. It says
// false when they cannot be had that way: a heartbeat would wipe them.
func (v *vigil) remember(ctx context.Context) (ok bool) {
	if !activity.HasHeartbeatDetails(ctx) {
		return true
	}
	defer func() {
		if recover() != nil { // a data converter of the user's
			ok = false
		}
	}()
	for n := 4; n <= maxDetails; n *= 2 {
		raw, into := make([]converter.RawValue, n), make([]any, n)
		for i := range raw {
			into[i] = &raw[i]
		}
		if activity.GetHeartbeatDetails(ctx, into...) != nil {
			return false
		}
		v.details = nil
		for i := range raw {
			if raw[i].Payload() == nil {
				return len(v.details) > 0
			}
			v.details = append(v.details, raw[i])
		}
	}
	return false
}

func (v *vigil) keep(ctx context.Context, workerStops <-chan struct{}, wake context.CancelCauseFunc) {
	defer close(v.done)
	var next <-chan time.Time
	if v.timeout > 0 {
		next = time.After(min(v.timeout/firstHeartbeat, maxFirst))
	}
	for {
		select {
		case <-v.stopping:
			return
		case <-ctx.Done():
			return
		case <-workerStops:
			wake(errWorkerStops)
			return
		case <-next:
			v.beat(ctx)
			next = time.After(min(time.Duration(heartbeatShare*float64(v.timeout)), maxHeartbeat))
		}
	}
}

// beat heartbeats, unless the attempt or its wait is over. The SDK panics on what it cannot encode.
func (v *vigil) beat(ctx context.Context) {
	select {
	case <-v.stopping:
		return
	default:
	}
	if ctx.Err() != nil {
		return
	}
	defer func() { _ = recover() }()
	activity.RecordHeartbeat(ctx, v.details...)
}

// end stops the heartbeats before the activity runs and sends its own. One that hangs is not
// waited for: the SDK keeps those of an attempt in their order.
func (v *vigil) end() {
	close(v.stopping)
	limit := time.NewTimer(endPatience)
	defer limit.Stop()
	select {
	case <-v.done:
	case <-limit.C:
	}
}

const endPatience = 100 * time.Millisecond
