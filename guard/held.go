package guard

import (
	"context"
	"sync"
	"sync/atomic"
)

// Lease is what an action can know of the reservation it runs under, from
// [LeaseFromContext]. It is safe for use by many goroutines.
type Lease struct {
	fence int64
	lost  chan struct{}
}

// Fence is the fencing token of the reservation: an integer that grows with every
// acquisition of the key. Hand it to what the action writes to, and let that
// refuse a fence smaller than one it has seen: then an owner that lost its lease
// without noticing can do no harm. The idea is described in "How to do distributed
// locking" (2016).
func (l *Lease) Fence() int64 { return l.fence }

// Lost is closed when the lease is lost: another owner may run the action now.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// running is what the context of an action carries: whose action it is, and of
// which action around it.
type running struct {
	guard    *Guard
	key      Key
	lease    *Lease     // nil when it runs unguarded
	held     *heldLease // as lease
	own      Record     // the reservation as it was made
	disabled bool       // it runs because the kill switch is off
	around   *running
	ended    atomic.Bool // the action has come back: its context says nothing any more
}

type runningKey struct{}

func runningFrom(ctx context.Context) *running {
	r, _ := ctx.Value(runningKey{}).(*running)
	return r
}

// within reports whether the context is that of a running action of this key.
func (r *running) within(g *Guard, key Key) bool {
	for ; r != nil; r = r.around {
		if r.key == key && r.guard.sharesStore(g) && !r.ended.Load() {
			return true
		}
	}
	return false
}

// partOf reports whether the context is that of a running action of this guard.
func (r *running) partOf(g *Guard) bool {
	for ; r != nil; r = r.around {
		if r.guard == g && !r.ended.Load() {
			return true
		}
	}
	return false
}

// LeaseFromContext returns the lease of the action whose context this is. It says
// false outside of an action and in one that runs unguarded. A lease stays what it
// was when the action has come back.
func LeaseFromContext(ctx context.Context) (*Lease, bool) {
	if r := runningFrom(ctx); r != nil && r.lease != nil {
		return r.lease, true
	}
	return nil, false
}

// FenceFromContext returns the fencing token of the action, or recovery hook, whose
// context this is: [Lease.Fence] of [LeaseFromContext].
func FenceFromContext(ctx context.Context) (fence int64, ok bool) {
	lease, ok := LeaseFromContext(ctx)
	if !ok {
		return 0, false
	}
	return lease.Fence(), true
}

// calls counts the calls of a guard that have begun, so that Drain can wait for
// them.
type calls struct {
	mu       sync.Mutex
	open     int
	draining chan struct{} // closed when Drain begins
	drained  chan struct{} // closed when no call is open any more; nil before Drain
}

func newCalls() *calls { return &calls{draining: make(chan struct{})} }

// enter begins a call, unless the guard drains. An inner call, of an action that
// runs, is part of what Drain waits for.
func (c *calls) enter(inner bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drained != nil && (!inner || c.open == 0) {
		return false
	}
	c.open++
	return true
}

// more begins the background part of a call that is open.
func (c *calls) more() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.open == 0 && c.drained != nil {
		close(c.drained)
	}
}

// drain begins the draining and returns what is closed at its end.
func (c *calls) drain() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drained == nil {
		c.drained = make(chan struct{})
		close(c.draining)
		if c.open == 0 {
			close(c.drained)
		}
	}
	return c.drained
}

// Drain ends the guard's work for a clean shutdown: new calls and those that wait
// for another owner get [ErrDraining], and Drain returns when the actions that
// run have come back, their results are stored and the observer knows, or when ctx
// ends, with its error. Calls that such an action makes itself are still served. A
// guard that drains does so for good. Close the store's client and the telemetry
// after it.
func (g *Guard) Drain(ctx context.Context) error {
	if g == nil || g.calls == nil {
		return nil // made by hand, it has no calls
	}
	drained := g.calls.drain()
	select {
	case <-drained:
		return nil
	default:
	}
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
