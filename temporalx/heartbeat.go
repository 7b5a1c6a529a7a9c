package temporalx

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
)

// What keeps an activity alive that waits for another owner, and what wakes it.

const (
	// A heartbeat that comes sooner after another one than 0.8 of the timeout, or the throttle
	// interval of the worker (both the SDK's), would be kept back by the SDK and sent later, perhaps
	// behind one of the activity itself.
	heartbeatShare  = 0.81
	defaultThrottle = time.Minute // the SDK's
	afterThrottle   = time.Second

	firstHeartbeat = 3 // the first one comes after a part in so many of the timeout
	maxFirst       = 20 * time.Second
)

// throttleOf is the longest time for which a worker keeps heartbeats back.
func throttleOf(o *worker.Options) time.Duration {
	if o.MaxHeartbeatThrottleInterval == 0 {
		return defaultThrottle
	}
	return o.MaxHeartbeatThrottleInterval
}

// intervals says when an attempt that waits heartbeats first, and how often after that. Where the
// worker's throttle interval is not known, only the share of the timeout is sure to be longer.
func (w *Interceptor) intervals(timeout time.Duration) (first, every time.Duration) {
	first, every = min(timeout/firstHeartbeat, maxFirst), time.Duration(heartbeatShare*float64(timeout))
	if w.throttle > 0 {
		every = min(every, w.throttle+afterThrottle)
	}
	return first, every
}

// vigil heartbeats for an attempt that waits. That it was canceled, paused or reset comes with
// the heartbeats, and ends its context.
type vigil struct {
	first, every time.Duration // 0: no heartbeats
	details      []any         // of the attempt before, sent again as they are
	done         chan struct{}
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

// watch wakes the attempt when the worker stops, also while a heartbeat hangs.
func watch(waits context.Context, workerStops <-chan struct{}, wake context.CancelCauseFunc) {
	select {
	case <-waits.Done():
	case <-workerStops:
		wake(errWorkerStops)
	}
}

func (v *vigil) keep(attempt, waits context.Context) {
	defer close(v.done)
	if v.first == 0 {
		return
	}
	for next := time.After(v.first); ; next = time.After(v.every) {
		select {
		case <-waits.Done():
			return
		case <-next:
			v.beat(attempt, waits)
		}
	}
}

// beat heartbeats, unless the attempt or its wait is over. It has the attempt's own context, since
// the SDK also sends with it what the activity itself sends soon after. The SDK panics on what it
// cannot encode.
func (v *vigil) beat(attempt, waits context.Context) {
	if waits.Err() != nil {
		return
	}
	defer func() { _ = recover() }()
	activity.RecordHeartbeat(attempt, v.details...)
}

// end waits for the last heartbeat of a wait that is over. One that hangs is not waited for: the
// key may be ours, and nobody renews its lease yet. See joinWait.
func (v *vigil) end() {
	limit := time.NewTimer(endPatience)
	defer limit.Stop()
	select {
	case <-v.done:
	case <-limit.C:
	}
}

const endPatience = 100 * time.Millisecond

// attemptWait is the wait of an attempt, for what runs after it.
type attemptWait struct {
	attempt context.Context //nolint:containedctx // whose end ends the heartbeats
	kept    *vigil          // nil if it has not waited
}

type waitKey struct{}

// joinWait waits, before the activity or the recovery hook runs and under its lease, until no
// heartbeat of the wait can come any more: it would replace what they have sent. The SDK limits how
// long one takes, and none is sent when the attempt has ended.
func joinWait(ctx context.Context) {
	wait, ok := ctx.Value(waitKey{}).(*attemptWait)
	if !ok || wait.kept == nil {
		return
	}
	select {
	case <-wait.kept.done:
	case <-wait.attempt.Done():
	}
}
