package storetest

import (
	"time"

	"github.com/onceguard/onceguard/guard"
)

// holdRetention is longer than the retention, so that it is the one that counts.
const holdRetention = 2 * retention

// holder is the store as a [guard.Holder]. The clauses of a store that is none are
// skipped.
func (e *env) holder() guard.Holder {
	e.Helper()
	holder, ok := e.store.(guard.Holder)
	if !ok {
		e.Skip("the store holds no outcomes that nobody knows")
	}
	return holder
}

// ask reserves the key, with the lifetimes of the suite where the request has none.
func (e *env) ask(req guard.ReserveRequest) guard.ReserveReply {
	e.Helper()
	e.holder()
	req.Key, req.Retention = e.key, retention
	if req.Lease == 0 {
		req.Lease = longLease
	}
	if req.HoldRetention == 0 {
		req.HoldRetention = holdRetention
	}
	reply, err := e.store.Reserve(e.ctx(), req)
	e.check("reserve", err)
	return reply
}

// dispatch acquires the key for an effect that may happen from now on.
func (e *env) dispatch(owner guard.Owner) guard.Record {
	e.Helper()
	return e.acquired(e.ask(guard.ReserveRequest{Owner: owner, Fingerprint: input(), Dispatched: true}))
}

// diesDispatched is an owner that may have had its effect when its lease runs out.
func (e *env) diesDispatched() guard.Record {
	e.Helper()
	return e.diesAsking(guard.ReserveRequest{Owner: newOwner(), Fingerprint: input(), Dispatched: true})
}

func (e *env) diesAsking(req guard.ReserveRequest) guard.Record {
	e.Helper()
	req.Lease = e.harness.ShortLease
	rec := e.acquired(e.ask(req))
	e.waitOver()
	return rec
}

// recovering is a new caller that can find out what became of an effect.
func recovering() guard.ReserveRequest {
	return guard.ReserveRequest{Owner: newOwner(), Fingerprint: input(), Recovers: true}
}

// recover takes the key over from an owner that may have had its effect.
func (e *env) recover() guard.Record {
	e.Helper()
	return e.acquired(e.ask(recovering()))
}

// held is a record whose effect nobody knows of. Its owner has dispatched it.
func (e *env) held() guard.Record {
	e.Helper()
	e.wantHold(e.dispatch(newOwner()), guard.HoldHeld)
	return e.stored()
}

// foundHeld is held because another caller has found its owner dead.
func (e *env) foundHeld() guard.Record {
	e.Helper()
	e.diesDispatched()
	e.wantHeldNow(e.reserve(newOwner()), true)
	return e.stored()
}

// wantHeldNow wants the reserve to have found the key taken, and to say whether it
// has made the record held itself.
func (e *env) wantHeldNow(reply guard.ReserveReply, want bool) {
	e.Helper()
	e.refused(reply)
	if reply.Held != want {
		e.Fatalf("this reserve made it held: %t, want %t", reply.Held, want)
	}
}

// renewAs renews, with the lifetimes of the suite where the request has none.
func (e *env) renewAs(req guard.RenewRequest) guard.RenewReply {
	e.Helper()
	e.holder()
	req.Key, req.Retention, req.HoldRetention = e.key, retention, holdRetention
	if req.Lease == 0 {
		req.Lease = longLease
	}
	reply, err := e.store.Renew(e.ctx(), req)
	e.check("renew", err)
	return reply
}

// mark renews a reservation and marks it as dispatched.
func (e *env) mark(rec guard.Record, want guard.RenewStatus) {
	e.Helper()
	if reply := e.renewAs(guard.RenewRequest{Record: rec, Dispatched: true}); reply.Status != want {
		e.Fatalf("renew with the mark: %q, want %q", reply.Status, want)
	}
}

// nothingFound renews a reservation with the word that nothing has happened.
func (e *env) nothingFound(rec guard.Record, dispatched bool, want guard.RenewStatus) {
	e.Helper()
	reply := e.renewAs(guard.RenewRequest{Record: rec, NothingFound: true, Dispatched: dispatched})
	if reply.Status != want {
		e.Fatalf("renew with the word that nothing happened: %q, want %q", reply.Status, want)
	}
}

func (e *env) holdFor(rec guard.Record, keep time.Duration) guard.HoldStatus {
	e.Helper()
	reply, err := e.holder().Hold(e.ctx(), guard.HoldRequest{
		Key: e.key, Record: rec, Lease: e.harness.ShortLease, Retention: keep,
	})
	e.check("hold", err)
	return reply.Status
}

func (e *env) wantHold(rec guard.Record, want guard.HoldStatus) {
	e.Helper()
	if got := e.holdFor(rec, holdRetention); got != want {
		e.Fatalf("hold: %q, want %q", got, want)
	}
}

// evidence is that of the owner which reserved the record dispatched.
func evidence(rec guard.Record) *guard.Dispatch {
	return &guard.Dispatch{Owner: rec.Owner, Fence: rec.Fence, At: rec.Created}
}

func (e *env) sameDispatch(got, want *guard.Dispatch) {
	e.Helper()
	if (got == nil) != (want == nil) {
		e.Errorf("dispatched: %+v, want %+v", got, want)
		return
	}
	if got != nil && (got.Owner != want.Owner || got.Fence != want.Fence || !got.At.Equal(want.At)) {
		e.Errorf("dispatched: %+v, want %+v", got, want)
	}
}

// tookOver is what a takeover of the record says of it.
func tookOver(rec guard.Record) *guard.Previous {
	return &guard.Previous{Owner: rec.Owner, Fence: rec.Fence}
}

// wantHeld wants the record to be held by its dispatcher.
func (e *env) wantHeld(rec guard.Record, dispatch *guard.Dispatch) {
	e.Helper()
	e.wantState(rec, guard.StatusHeld, dispatch.Owner)
	if rec.Owner != dispatch.Owner {
		e.Errorf("owner: %+v, want the dispatcher %+v", rec.Owner, dispatch.Owner)
	}
	e.sameDispatch(rec.Dispatch, dispatch)
	if rec.Version != guard.SchemaVersion || len(rec.Result) != 0 || rec.Encoding != "" {
		e.Errorf("version %d, result %.40q (%s)", rec.Version, rec.Result, rec.Encoding)
	}
}

// ticks waits until the store's clock has gone on. The record must have time left.
func (e *env) ticks() {
	e.Helper()
	before := e.load()
	if before.Left == 0 {
		e.Fatal("no time is left to tell the store's clock by")
	}
	e.until("less is left", func() bool { return e.load().Left < before.Left })
}
