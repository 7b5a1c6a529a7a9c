package storetest

import "github.com/onceguard/onceguard/guard"

// nothingFoundClauses are about the word of a caller that recovers, that the effect
// of an earlier owner has not happened.
func nothingFoundClauses() []clause {
	return []clause{
		{"it clears the evidence of an earlier owner, and nothing else", func(e *env) {
			e.diesDispatched()
			rec := e.recover()
			e.nothingFound(rec, false, guard.RenewOK)
			got := e.stored()
			e.wantState(got, guard.StatusPending, rec.Owner)
			e.sameAcquisition(got, rec)
			e.samePrevious(got.TookOver, rec.TookOver)
			e.sameDispatch(got.Dispatch, nil)
		}},
		{"the input of the earlier owner goes with its evidence, and that of the caller takes its place", func(e *env) {
			e.diesAsking(guard.ReserveRequest{Owner: newOwner(), Dispatched: true})
			rec := e.recover()
			rec.Fingerprint = input()
			e.nothingFound(rec, true, guard.RenewOK)
			if got := e.stored().Fingerprint; got != input() {
				e.Errorf("fingerprint %+v, want %+v", got, input())
			}
			e.mark(guard.Record{Owner: rec.Owner, Fingerprint: otherInput()}, guard.RenewOK)
			if got := e.stored().Fingerprint; got != input() {
				e.Errorf("after a plain renewal: fingerprint %+v, want %+v", got, input())
			}
		}},
		{"with the mark in the same renewal the evidence is the caller's own", func(e *env) {
			e.diesDispatched()
			rec := e.recover()
			e.ticks()
			e.nothingFound(rec, true, guard.RenewOK)
			e.wantMarked(rec)
		}},
		{"a repeat with the mark leaves the caller's own evidence", func(e *env) {
			e.held()
			rec := e.recover()
			e.nothingFound(rec, true, guard.RenewOK)
			own := e.stored().Dispatch
			e.ticks()
			e.nothingFound(rec, true, guard.RenewOK)
			e.sameDispatch(e.stored().Dispatch, own)
		}},
		{"it never clears the caller's own evidence", func(e *env) {
			rec := e.dispatch(newOwner())
			e.nothingFound(rec, false, guard.RenewOK)
			e.sameDispatch(e.stored().Dispatch, evidence(rec))
			e.ticks()
			e.nothingFound(rec, true, guard.RenewOK)
			e.sameDispatch(e.stored().Dispatch, evidence(rec))
		}},
		{"without any evidence it is a renewal", func(e *env) {
			rec := e.acquire(newOwner())
			e.nothingFound(rec, false, guard.RenewOK)
			e.sameAcquisition(e.stored(), rec)
			e.sameDispatch(e.stored().Dispatch, nil)
		}},
		{"a reservation that it has cleared is free to all past its lease", func(e *env) {
			e.held()
			req := recovering()
			req.Lease = e.harness.ShortLease
			rec := e.acquired(e.ask(req))
			e.renewAs(guard.RenewRequest{Record: rec, NothingFound: true, Lease: e.harness.ShortLease})
			e.waitOver()
			next := e.acquired(e.ask(guard.ReserveRequest{Owner: newOwner(), Fingerprint: otherInput()}))
			e.samePrevious(next.TookOver, tookOver(rec))
			e.sameDispatch(next.Dispatch, nil)
		}},
		{"a missing record is put back without the evidence of an earlier owner", func(e *env) {
			e.held()
			rec := e.recover()
			e.lose()
			e.nothingFound(rec, false, guard.RenewRestored)
			e.sameAcquisition(e.stored(), rec)
			e.sameDispatch(e.stored().Dispatch, nil)
		}},
		{"a missing record is put back with the caller's own evidence", func(e *env) {
			e.held()
			rec := e.recover()
			e.lose()
			e.nothingFound(rec, true, guard.RenewRestored)
			e.wantMarked(rec)
		}},
		{"after another takeover it is lost and changes nothing", func(e *env) {
			e.diesDispatched()
			second := e.diesAsking(recovering())
			e.recover()
			e.unchanged(func() {
				e.nothingFound(second, false, guard.RenewLost)
				e.nothingFound(second, true, guard.RenewLost)
			})
		}},
	}
}

// giveBackClauses are about the release of a reservation that carries the evidence
// of an earlier owner.
func giveBackClauses() []clause {
	return []clause{
		{"the record is held again, and its dispatcher's", func(e *env) {
			dead := e.diesDispatched()
			rec := e.recover()
			e.releaseHeld(rec)
			e.wantGivenBack(dead, rec)
		}},
		{"so it is past the lease of the one that releases", func(e *env) {
			first := e.held()
			second := e.diesAsking(recovering())
			e.releaseHeld(second)
			e.wantGivenBack(first, second)
		}},
		{"so it is when the record has become held", func(e *env) {
			first := e.held()
			second := e.diesAsking(recovering())
			e.wantHeldNow(e.reserve(newOwner()), true)
			e.releaseHeld(second)
			e.wantGivenBack(first, second)
		}},
		{"an owner that never learned of its reservation gives it back", func(e *env) {
			held := e.held()
			rec := e.recover()
			e.releaseHeld(guard.Record{Owner: rec.Owner})
			e.wantGivenBack(held, rec)
		}},
		{"who released it finds nothing of its own", func(e *env) {
			e.held()
			rec := e.recover()
			e.releaseHeld(rec)
			e.unchanged(func() {
				e.wantHeldNow(e.reserve(rec.Owner), false)
				e.wantLost(rec)
				e.mark(rec, guard.RenewLost)
				e.nothingFound(rec, true, guard.RenewLost)
				e.wantReplace(rec, guard.ReplaceStale)
				e.wantFail(rec, guard.ReplaceStale)
				e.wantRelease(rec, false)
			})
		}},
		{"its dispatcher's result settles it", func(e *env) {
			dead := e.diesDispatched()
			rec := e.recover()
			e.releaseHeld(rec)
			e.wantReplace(dead, guard.ReplaceStored)
			e.wantResult(e.stored(), dead.Owner)
			e.sameDispatch(e.stored().Dispatch, nil)
		}},
		{"its dispatcher's release settles it", func(e *env) {
			held := e.held()
			e.releaseHeld(e.recover())
			e.wantTombstone(held)
		}},
		{"it is taken over again, with the same evidence", func(e *env) {
			held := e.held()
			e.releaseHeld(e.recover())
			back := e.stored()
			again := e.recover()
			e.sameDispatch(again.Dispatch, evidence(held))
			e.samePrevious(again.TookOver, tookOver(back))
			e.higher(again.Fence, back.Fence)
		}},
		{"the caller's own evidence makes it a tombstone", func(e *env) {
			e.held()
			rec := e.recover()
			e.nothingFound(rec, true, guard.RenewOK)
			e.wantTombstone(rec)
			e.samePrevious(e.acquire(newOwner()).TookOver, nil)
		}},
		{"so does no evidence", func(e *env) {
			e.held()
			rec := e.recover()
			e.nothingFound(rec, false, guard.RenewOK)
			e.wantTombstone(rec)
		}},
	}
}

// releaseHeld releases and wants the record to be held again.
func (e *env) releaseHeld(rec guard.Record) {
	e.Helper()
	reply, err := e.store.Release(e.ctx(), guard.ReleaseRequest{Key: e.key, Record: rec, Lease: longLease})
	e.check("release", err)
	if !reply.Released || !reply.Held {
		e.Fatalf("released: %t, held again: %t, want both", reply.Released, reply.Held)
	}
}

// wantGivenBack wants the record to be held by the first owner, which has dispatched
// it, after the last one has let go of it.
func (e *env) wantGivenBack(first, last guard.Record) {
	e.Helper()
	loaded := e.load()
	e.wantHeld(loaded.Record, evidence(first))
	if loaded.Record.Fence < last.Fence {
		e.Errorf("fence %d after fence %d", loaded.Record.Fence, last.Fence)
	}
	if !loaded.Record.Created.Equal(loaded.Record.Dispatch.At) {
		e.Errorf("created %s, want when it was dispatched, %s", loaded.Record.Created, loaded.Record.Dispatch.At)
	}
	e.samePrevious(loaded.Record.TookOver, nil)
	if loaded.Record.Fingerprint != first.Fingerprint {
		e.Errorf("fingerprint %+v, want %+v", loaded.Record.Fingerprint, first.Fingerprint)
	}
	if loaded.Left < holdRetention-patience {
		e.Errorf("%s left, want at least %s", loaded.Left, holdRetention)
	}
}
