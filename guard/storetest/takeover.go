package storetest

import (
	"sync/atomic"

	"github.com/onceguard/onceguard/guard"
)

// takeoverClauses are about reservations of dead owners whose effect may have
// happened.
func takeoverClauses() []clause {
	return []clause{
		{"without recovery it becomes held in that very step", becomesHeld},
		{"who comes after that finds it held and changes nothing", func(e *env) {
			held := e.foundHeld()
			e.unchanged(func() {
				reply := e.reserve(newOwner())
				e.wantHeldNow(reply, false)
				e.same(reply.Record, held)
				e.wantLeft(reply.Left, holdRetention)
			})
		}},
		{"it is held for the retention where that is longer", func(e *env) {
			e.diesAsking(guard.ReserveRequest{Owner: newOwner(), Dispatched: true, HoldRetention: retention / 2})
			reply := e.reserve(newOwner())
			e.wantHeldNow(reply, true)
			e.wantLeft(reply.Left, retention)
		}},
		{"with recovery it is taken over with its evidence", func(e *env) { e.isRecovered(e.diesDispatched()) }},
		{"with recovery it is taken over after it was held, with its evidence", func(e *env) { e.isRecovered(e.foundHeld()) }},
		{"a takeover that is dispatched itself keeps the first evidence", func(e *env) {
			dead := e.diesDispatched()
			req := recovering()
			req.Dispatched = true
			rec := e.acquired(e.ask(req))
			e.sameDispatch(rec.Dispatch, evidence(dead))
			e.sameDispatch(e.stored().Dispatch, evidence(dead))
			e.mark(rec, guard.RenewOK)
			e.sameDispatch(e.stored().Dispatch, evidence(dead))
		}},
		{"a second takeover names the last owner, and the first as the dispatcher", func(e *env) {
			first := e.diesDispatched()
			second := e.diesAsking(recovering())
			third := e.recover()
			e.samePrevious(third.TookOver, tookOver(second))
			e.sameDispatch(third.Dispatch, evidence(first))
			e.higher(third.Fence, second.Fence)
			e.same(e.stored(), third)
		}},
		{"a dead owner that was to recover leaves it dispatched", func(e *env) {
			first := e.diesDispatched()
			second := e.diesAsking(recovering())
			reply := e.reserve(newOwner())
			e.wantHeldNow(reply, true)
			e.wantState(reply.Record, guard.StatusHeld, second.Owner)
			e.sameAcquisition(reply.Record, second)
			e.sameDispatch(reply.Record.Dispatch, evidence(first))
		}},
		{"a takeover whose reply was lost has the same evidence when it is repeated", func(e *env) {
			dead := e.diesDispatched()
			req := recovering()
			first := e.acquired(e.ask(req))
			again := e.acquired(e.ask(req))
			e.sameAcquisition(again, first)
			e.samePrevious(again.TookOver, tookOver(dead))
			e.sameDispatch(again.Dispatch, evidence(dead))
		}},
		{"of many callers that recover exactly one takes over", func(e *env) {
			dead := e.diesDispatched()
			rec := e.exactlyOne(func() guard.ReserveReply { return e.ask(recovering()) })
			e.samePrevious(rec.TookOver, tookOver(dead))
			e.sameDispatch(rec.Dispatch, evidence(dead))
		}},
		{"of many callers that do not recover exactly one makes it held", func(e *env) {
			e.diesDispatched()
			var held atomic.Int32
			e.together(crowd, func(int) {
				reply := e.reserve(newOwner())
				if reply.Held {
					held.Add(1)
				}
				if reply.Acquired || reply.Record.Status != guard.StatusHeld {
					e.Errorf("acquired: %t, status %q", reply.Acquired, reply.Record.Status)
				}
			})
			if held.Load() != 1 {
				e.Errorf("%d of %d callers made it held", held.Load(), crowd)
			}
		}},
		{"a reservation that was not dispatched is taken over by all, and needs no time to settle", func(e *env) {
			dead := e.dies()
			req := recovering()
			req.Settle, req.Lease, req.Dispatched = retention, e.harness.ShortLease, true
			second := e.acquired(e.ask(req))
			e.samePrevious(second.TookOver, tookOver(dead))
			e.sameDispatch(second.Dispatch, evidence(second))
		}},
		{"until it has settled it becomes and stays held", func(e *env) {
			dead := e.diesDispatched()
			req := recovering()
			req.Settle = retention
			reply := e.ask(req)
			e.wantHeldNow(reply, true)
			e.wantHeld(reply.Record, evidence(dead))
			e.unchanged(func() { e.wantHeldNow(e.ask(req), false) })
			e.isRecovered(reply.Record) // by a caller that does not wait
		}},
		{"once it has settled it is taken over", settles},
		{"it settles from the last write of its owner on", func(e *env) {
			e.wantHold(e.diesDispatched(), guard.HoldHeld)
			settlesFrom(e, e.stored())
		}},
	}
}

// inputClauses are about the fingerprint of a reservation whose effect may have
// happened: it is the input that the effect was asked for with.
func inputClauses() []clause {
	return []clause{
		{"another input changes nothing, with recovery or without", func(e *env) {
			e.diesDispatched()
			e.refusesOtherInput()
		}},
		{"another input changes nothing of a held record either", func(e *env) {
			e.held()
			e.refusesOtherInput()
		}},
		{"a takeover without an input has the one of the record", func(e *env) {
			e.diesDispatched()
			req := recovering()
			req.Fingerprint = guard.Fingerprint{}
			e.wantInput(req, input())
		}},
		{"an input that cannot be compared takes over and leaves the one of the record", func(e *env) {
			e.held()
			req := recovering()
			req.Fingerprint = guard.Fingerprint{Algorithm: "another", Digest: "9f86"}
			e.wantInput(req, input())
		}},
		{"a record without an input stays without one in a takeover", func(e *env) {
			e.diesAsking(guard.ReserveRequest{Owner: newOwner(), Dispatched: true})
			e.wantInput(recovering(), guard.Fingerprint{})
		}},
		{"a caller without an input makes it held", func(e *env) {
			e.diesDispatched()
			reply := e.ask(guard.ReserveRequest{Owner: newOwner()})
			e.wantHeldNow(reply, true)
			if reply.Record.Fingerprint != input() {
				e.Errorf("fingerprint %+v, want %+v", reply.Record.Fingerprint, input())
			}
		}},
		{"an expired reservation that was not dispatched is free to any", func(e *env) {
			e.dies()
			e.wantInput(guard.ReserveRequest{Owner: newOwner(), Fingerprint: otherInput()}, otherInput())
		}},
	}
}

func otherInput() guard.Fingerprint {
	return guard.Fingerprint{Algorithm: input().Algorithm, Digest: "60303ae22b998861bce3b28f33eec1be"}
}

func (e *env) refusesOtherInput() {
	e.Helper()
	for _, recovers := range []bool{false, true} {
		e.unchanged(func() {
			e.wantHeldNow(e.ask(guard.ReserveRequest{
				Owner: newOwner(), Fingerprint: otherInput(), Dispatched: true, Recovers: recovers,
			}), false)
		})
	}
}

func (e *env) wantInput(req guard.ReserveRequest, want guard.Fingerprint) {
	e.Helper()
	if got := e.acquired(e.ask(req)).Fingerprint; got != want {
		e.Errorf("fingerprint %+v, want %+v", got, want)
	}
	if got := e.stored().Fingerprint; got != want {
		e.Errorf("stored fingerprint %+v, want %+v", got, want)
	}
}

func becomesHeld(e *env) {
	dead := e.diesDispatched()
	reply := e.reserve(newOwner())
	e.wantHeldNow(reply, true)
	e.wantHeld(reply.Record, evidence(dead))
	e.sameAcquisition(reply.Record, dead)
	e.samePrevious(reply.Record.TookOver, nil)
	if !reply.Record.Updated.Equal(dead.Updated) {
		e.Errorf("updated %s, want %s, the last write of its owner", reply.Record.Updated, dead.Updated)
	}
	e.wantLeft(reply.Left, holdRetention)
	e.same(e.stored(), reply.Record)
}

// isRecovered takes over the record under the key, which its owner has dispatched.
func (e *env) isRecovered(dead guard.Record) {
	e.Helper()
	rec := e.recover()
	e.samePrevious(rec.TookOver, tookOver(dead))
	e.sameDispatch(rec.Dispatch, evidence(dead))
	e.higher(rec.Fence, dead.Fence)
	if rec.Status != guard.StatusPending || rec.Attempt != dead.Attempt+1 || rec.Created.Before(dead.Created) {
		e.Errorf("%s, attempt %d, created %s after attempt %d, created %s",
			rec.Status, rec.Attempt, rec.Created, dead.Attempt, dead.Created)
	}
	e.same(e.stored(), rec)
}

func settles(e *env) {
	dead := e.diesDispatched()
	e.wantHeldNow(e.reserve(newOwner()), true)
	settlesFrom(e, dead)
}

// settlesFrom waits until a caller takes over that gives the record some time to
// settle, and reads on the store's clock that it was not too early.
func settlesFrom(e *env, held guard.Record) {
	e.Helper()
	settle := 3 * e.harness.ShortLease
	var rec guard.Record
	e.until("the record has settled", func() bool {
		req := recovering()
		req.Settle = settle
		reply := e.ask(req)
		rec = reply.Record
		return reply.Acquired
	})
	if waited := rec.Created.Sub(held.Updated); waited < settle {
		e.Errorf("taken over after %s, want at least %s", waited, settle)
	}
	e.samePrevious(rec.TookOver, tookOver(held))
}
