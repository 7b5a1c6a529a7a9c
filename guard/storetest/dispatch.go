package storetest

import "github.com/onceguard/onceguard/guard"

// dispatchClauses hold for a store that is a [guard.Holder]: a reservation says
// whether its effect may have happened.
func dispatchClauses() []clause {
	return []clause{
		{"a reservation is dispatched from its first moment on", func(e *env) {
			rec := e.dispatch(newOwner())
			e.sameDispatch(rec.Dispatch, evidence(rec))
			e.same(e.stored(), rec)
		}},
		{"a repeat with the same token has the same evidence", func(e *env) {
			first := e.dispatch(newOwner())
			e.ticks()
			again := e.dispatch(first.Owner)
			e.sameAcquisition(again, first)
			e.sameDispatch(again.Dispatch, first.Dispatch)
			e.sameDispatch(e.stored().Dispatch, first.Dispatch)
		}},
		{"a repeat past the lease has the same evidence", func(e *env) {
			first := e.diesDispatched()
			again := e.dispatch(first.Owner)
			e.sameAcquisition(again, first)
			e.sameDispatch(again.Dispatch, first.Dispatch)
		}},
		{"a reservation that does not ask for it has no evidence", func(e *env) {
			rec := e.acquired(e.ask(guard.ReserveRequest{Owner: newOwner()}))
			e.sameDispatch(rec.Dispatch, nil)
			e.sameDispatch(e.stored().Dispatch, nil)
		}},
		{"a live one keeps out also those who recover", func(e *env) {
			rec := e.dispatch(newOwner())
			e.unchanged(func() {
				reply := e.ask(recovering())
				e.same(e.refused(reply), rec)
				e.wantHeldNow(reply, false)
			})
		}},
		{"a result has no evidence", func(e *env) {
			rec := e.dispatch(newOwner())
			e.wantReplace(rec, guard.ReplaceStored)
			e.wantResult(e.stored(), rec.Owner)
			e.sameDispatch(e.stored().Dispatch, nil)
		}},
		{"its owner's tombstone has no evidence and is free to others", func(e *env) {
			rec := e.dispatch(newOwner())
			e.wantTombstone(rec)
			next := e.acquire(newOwner())
			e.sameDispatch(next.Dispatch, nil)
			e.samePrevious(next.TookOver, nil)
		}},
		{"the label and trace of a dispatcher come back", func(e *env) {
			for _, text := range lookalikes() {
				at := e.at(newKey())
				rec := at.dispatch(guard.Owner{Token: newOwner().Token, Label: text, TraceParent: text})
				at.sameDispatch(at.stored().Dispatch, evidence(rec))
			}
		}},
	}
}

// markClauses are about reservations that are dispatched by a renewal.
func markClauses() []clause {
	return []clause{
		{"a renewal marks a reservation, and changes nothing else of it", func(e *env) {
			rec := e.acquire(newOwner())
			e.ticks()
			e.mark(rec, guard.RenewOK)
			e.wantMarked(rec)
			e.wantLeft(e.load().Left, longLease)
		}},
		{"an owner that never learned of its reservation marks it", func(e *env) {
			rec := e.acquire(newOwner())
			e.mark(guard.Record{Owner: rec.Owner}, guard.RenewOK)
			e.wantMarked(rec)
		}},
		{"a second mark leaves the first", func(e *env) {
			rec := e.acquire(newOwner())
			e.mark(rec, guard.RenewOK)
			first := e.stored().Dispatch
			e.ticks()
			e.mark(rec, guard.RenewOK)
			e.sameDispatch(e.stored().Dispatch, first)
		}},
		{"a mark leaves the evidence of the reserve", func(e *env) {
			rec := e.dispatch(newOwner())
			e.ticks()
			e.mark(rec, guard.RenewOK)
			e.sameDispatch(e.stored().Dispatch, evidence(rec))
		}},
		{"a renewal without the mark does not clear it", func(e *env) {
			rec := e.dispatch(newOwner())
			e.wantRenew(rec, guard.RenewOK)
			e.wantRenew(guard.Record{Owner: rec.Owner}, guard.RenewOK)
			e.sameDispatch(e.stored().Dispatch, evidence(rec))
		}},
		{"a repeat of the reserve does not clear it", func(e *env) {
			rec := e.acquire(newOwner())
			e.mark(rec, guard.RenewOK)
			marked := e.stored().Dispatch
			e.sameDispatch(e.acquire(rec.Owner).Dispatch, marked)
			e.sameDispatch(e.stored().Dispatch, marked)
		}},
		{"a late renewal of a dispatched reservation that nobody found keeps its evidence", func(e *env) {
			dead := e.diesDispatched()
			e.wantRenew(dead, guard.RenewOK)
			e.sameDispatch(e.stored().Dispatch, evidence(dead))
			e.refused(e.ask(recovering()))
		}},
		{"a missing record is put back with its evidence", func(e *env) {
			rec := e.dispatch(newOwner())
			e.lose()
			e.wantRenew(rec, guard.RenewRestored)
			restored := e.stored()
			e.sameAcquisition(restored, rec)
			e.sameDispatch(restored.Dispatch, evidence(rec))
		}},
		{"a missing record is put back with the evidence of an earlier owner", func(e *env) {
			dead := e.diesDispatched()
			rec := e.recover()
			e.lose()
			e.wantRenew(rec, guard.RenewRestored)
			restored := e.stored()
			e.sameAcquisition(restored, rec)
			e.samePrevious(restored.TookOver, tookOver(dead))
			e.sameDispatch(restored.Dispatch, evidence(dead))
		}},
		{"a missing record is put back and marked at once", func(e *env) {
			rec := e.lost(longLease)
			e.mark(rec, guard.RenewRestored)
			e.wantMarked(rec)
		}},
		{"a reservation that was marked becomes held too, and is kept as long", func(e *env) {
			rec := e.acquired(e.reserveFor(newOwner(), e.harness.ShortLease))
			e.renewAs(guard.RenewRequest{Record: rec, Dispatched: true, Lease: e.harness.ShortLease})
			e.waitOver()
			reply := e.reserve(newOwner())
			e.wantHeldNow(reply, true)
			e.wantLeft(reply.Left, holdRetention)
		}},
		{"a mark after a takeover is lost and changes nothing", func(e *env) {
			dead := e.dies()
			e.acquire(newOwner())
			e.unchanged(func() { e.mark(dead, guard.RenewLost) })
		}},
	}
}

// wantMarked wants the stored reservation to be this one, marked by its last write.
func (e *env) wantMarked(rec guard.Record) {
	e.Helper()
	marked := e.stored()
	e.wantState(marked, guard.StatusPending, rec.Owner)
	e.sameAcquisition(marked, rec)
	e.samePrevious(marked.TookOver, rec.TookOver)
	e.sameDispatch(marked.Dispatch, &guard.Dispatch{Owner: rec.Owner, Fence: rec.Fence, At: marked.Updated})
}

// wantTombstone releases, and wants what is left to be the owner's tombstone,
// without evidence.
func (e *env) wantTombstone(rec guard.Record) {
	e.Helper()
	reply, err := e.store.Release(e.ctx(), guard.ReleaseRequest{Key: e.key, Record: rec, Lease: longLease})
	e.check("release", err)
	if !reply.Released || reply.Held {
		e.Fatalf("released: %t, held again: %t, want a tombstone", reply.Released, reply.Held)
	}
	loaded := e.load()
	e.wantState(loaded.Record, guard.StatusReleased, rec.Owner)
	e.sameDispatch(loaded.Record.Dispatch, nil)
	e.wantLeft(loaded.Left, longLease)
}
