package storetest

import (
	"sync/atomic"

	"github.com/onceguard/onceguard/guard"
)

// healClauses speak of a result that its readers cannot decode: ReserveRequest
// names it, and one of them may take its key.
func healClauses() []clause {
	return []clause{
		{"the named result is acquired, and is no takeover", func(e *env) {
			done := e.completed()
			rec := e.acquired(e.heal(seen(done)))
			e.samePrevious(rec.TookOver, nil)
			e.higher(rec.Fence, done.Fence)
		}},
		{"of many callers that name it exactly one acquires", func(e *env) {
			done := e.completed()
			var acquired atomic.Int32
			e.together(crowd, func(int) {
				if e.heal(seen(done)).Acquired {
					acquired.Add(1)
				}
			})
			if acquired.Load() != 1 {
				e.Errorf("%d of %d callers acquired", acquired.Load(), crowd)
			}
		}},
		{"another result than the named one stays", func(e *env) {
			done := e.completed()
			e.unchanged(func() {
				e.refused(e.heal(&guard.Seen{OwnerToken: done.Owner.Token, Fence: done.Fence - 1}))
				e.refused(e.heal(&guard.Seen{OwnerToken: newOwner().Token, Fence: done.Fence}))
			})
		}},
		{"a reservation is never taken so", func(e *env) {
			live := e.acquire(newOwner())
			e.unchanged(func() { e.refused(e.heal(seen(live))) })
		}},
	}
}

func seen(rec guard.Record) *guard.Seen {
	return &guard.Seen{OwnerToken: rec.Owner.Token, Fence: rec.Fence}
}

// completed is a record with a result.
func (e *env) completed() guard.Record {
	e.Helper()
	e.wantReplace(e.acquire(newOwner()), guard.ReplaceStored)
	return e.stored()
}

// heal reserves for a new owner that could not decode what it names.
func (e *env) heal(unreadable *guard.Seen) guard.ReserveReply {
	e.Helper()
	reply, err := e.store.Reserve(e.ctx(), guard.ReserveRequest{
		Key: e.key, Owner: newOwner(), Lease: longLease, Retention: retention, Unreadable: unreadable,
	})
	e.check("reserve", err)
	return reply
}
