package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceguard/onceguard/guard"
)

const (
	crowd  = 50 // callers at once
	rounds = 10 // of a race between two
)

func raceClauses() []clause {
	return []clause{
		{"of many callers exactly one acquires a free key", func(e *env) { e.exactlyOneAcquires() }},
		{"of many callers exactly one takes over", func(e *env) {
			dead := e.dies()
			rec := e.exactlyOneAcquires()
			e.samePrevious(rec.TookOver, &guard.Previous{Owner: dead.Owner, Fence: dead.Fence})
		}},
		{"of many callers exactly one acquires another's tombstone", func(e *env) {
			e.wantRelease(e.acquire(newOwner()), true)
			e.exactlyOneAcquires()
		}},
		{"repeats at the same time are one acquisition", func(e *env) {
			owner := newOwner()
			replies := make([]guard.ReserveReply, crowd)
			e.together(crowd, func(i int) { replies[i] = e.reserve(owner) })
			for _, reply := range replies {
				e.sameAcquisition(e.acquired(reply), replies[0].Record)
			}
		}},
		{"of many results for a free key exactly one is stored", func(e *env) {
			var stored atomic.Int32
			e.together(crowd, func(int) {
				if e.replace(guard.Record{Owner: newOwner()}) != guard.ReplaceStale {
					stored.Add(1)
				}
			})
			if stored.Load() != 1 {
				e.Errorf("%d results were stored", stored.Load())
			}
		}},
		{"a late renewal and a takeover never both succeed", func(e *env) {
			e.eitherOr(func(at *env, dead guard.Record) bool { return at.renew(dead).Status == guard.RenewOK })
		}},
		{"a late result and a takeover never both succeed", func(e *env) {
			e.eitherOr(func(at *env, dead guard.Record) bool { return at.replace(dead) == guard.ReplaceStored })
		}},
	}
}

// together runs do in so many goroutines that start at once, and waits for them.
func (e *env) together(n int, do func(i int)) {
	e.Helper()
	var running sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		running.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	running.Wait()
}

func (e *env) exactlyOneAcquires() guard.Record {
	e.Helper()
	return e.exactlyOne(func() guard.ReserveReply { return e.reserve(newOwner()) })
}

func (e *env) exactlyOne(reserve func() guard.ReserveReply) guard.Record {
	e.Helper()
	replies := make([]guard.ReserveReply, crowd)
	e.together(crowd, func(i int) { replies[i] = reserve() })
	var won []guard.Record
	for _, reply := range replies {
		if reply.Acquired {
			won = append(won, reply.Record)
		}
	}
	if len(won) != 1 {
		e.Fatalf("%d of %d callers acquired", len(won), crowd)
	}
	for _, reply := range replies {
		e.sameAcquisition(reply.Record, won[0])
	}
	return won[0]
}

// eitherOr races what a dead owner does late against a takeover.
func (e *env) eitherOr(late func(at *env, dead guard.Record) bool) {
	e.Helper()
	for range rounds {
		at := e.at(newKey())
		dead := at.diesAs(newOwner(), time.Millisecond)
		var succeeded, took bool
		at.together(2, func(i int) {
			if i == 0 {
				succeeded = late(at, dead)
			} else {
				took = at.reserve(newOwner()).Acquired
			}
		})
		if succeeded == took {
			e.Fatalf("late owner succeeded: %t, takeover: %t", succeeded, took)
		}
	}
}
