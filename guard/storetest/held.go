package storetest

import "github.com/onceguard/onceguard/guard"

// heldClauses are about records that are held: they still are their owner's, who
// may settle them, and keep the key from all who cannot find out.
func heldClauses() []clause {
	return []clause{
		{"its owner's result settles it", func(e *env) {
			held := e.held()
			e.wantReplace(held, guard.ReplaceStored)
			got := e.stored()
			e.wantResult(got, held.Owner)
			e.sameAcquisition(got, held)
			e.sameDispatch(got.Dispatch, nil)
		}},
		{"its owner's error settles it", func(e *env) {
			held := e.held()
			e.wantFail(held, guard.ReplaceStored)
			got := e.stored()
			e.wantFailed(got, held.Owner)
			e.sameAcquisition(got, held)
			e.sameDispatch(got.Dispatch, nil)
		}},
		{"its owner's release settles it", func(e *env) {
			held := e.held()
			e.wantTombstone(held)
			e.sameAcquisition(e.stored(), held)
			e.samePrevious(e.acquire(newOwner()).TookOver, nil)
		}},
		{"the result of an owner that has seen no more than its reservation settles it", func(e *env) {
			dead := e.diesDispatched()
			e.wantHeldNow(e.reserve(newOwner()), true)
			e.wantReplace(dead, guard.ReplaceStored)
			e.wantResult(e.stored(), dead.Owner)
			e.sameAcquisition(e.stored(), dead)
		}},
		{"its owner's renewal is lost, whatever it asks for", func(e *env) {
			held := e.held()
			e.unchanged(func() {
				e.wantLost(held)
				e.mark(held, guard.RenewLost)
				e.nothingFound(held, true, guard.RenewLost)
			})
		}},
		{"its owner's late reserve acquires nothing", func(e *env) {
			held := e.held()
			e.unchanged(func() {
				req := recovering()
				req.Owner = held.Owner
				e.wantHeldNow(e.reserve(held.Owner), false)
				e.wantHeldNow(e.ask(req), false)
			})
		}},
		{"another owner's result is stale", func(e *env) {
			dead := e.dies()
			e.held()
			e.unchanged(func() {
				e.wantReplace(dead, guard.ReplaceStale)
				e.wantReplace(guard.Record{Owner: newOwner()}, guard.ReplaceStale)
				e.wantFail(dead, guard.ReplaceStale)
			})
		}},
		{"another owner's release and hold are refused, and its renewal is lost", func(e *env) {
			dead := e.dies()
			e.held()
			e.unchanged(func() {
				e.wantRelease(dead, false)
				e.wantHold(dead, guard.HoldRefused)
				e.wantHold(guard.Record{Owner: newOwner()}, guard.HoldRefused)
				e.wantLost(dead)
			})
		}},
		{"it is never taken as a result that cannot be decoded", func(e *env) {
			held := e.held()
			e.unchanged(func() {
				e.wantHeldNow(e.ask(guard.ReserveRequest{Owner: newOwner(), Unreadable: seen(held)}), false)
			})
		}},
		{"one whose time is over is free to all and no takeover", func(e *env) {
			rec := e.dispatch(newOwner())
			if got := e.holdFor(rec, e.harness.ShortLease); got != guard.HoldHeld {
				e.Fatalf("hold: %q", got)
			}
			e.waitOver()
			next := e.acquired(e.ask(guard.ReserveRequest{Owner: newOwner(), Fingerprint: otherInput()}))
			e.samePrevious(next.TookOver, nil)
			e.sameDispatch(next.Dispatch, nil)
			e.higher(next.Fence, rec.Fence)
			if next.Fingerprint != otherInput() {
				e.Errorf("fingerprint %+v, want %+v", next.Fingerprint, otherInput())
			}
		}},
		{"its owner holds and renews nothing once another has taken over", func(e *env) {
			held := e.held()
			e.recover()
			e.unchanged(func() {
				e.wantHold(held, guard.HoldRefused)
				e.wantLost(held)
			})
		}},
		{"its owner's result settles it while another only asks", func(e *env) { e.settlesWhatIsAsked(e.wantResultOf) }},
		{"its owner's error settles it while another only asks", func(e *env) {
			e.settlesWhatIsAsked(func(held guard.Record) {
				e.wantFail(held, guard.ReplaceRestored)
				e.wantFailed(e.stored(), held.Owner)
			})
		}},
		{"its owner's release settles it while another only asks", func(e *env) { e.settlesWhatIsAsked(e.wantTombstone) }},
		{"its owner settles it over one that died while it asked, found dead or not", func(e *env) {
			for _, found := range []bool{false, true} {
				at := e.at(newKey())
				held := at.held()
				at.diesAsking(recovering())
				if found {
					at.wantHeldNow(at.reserve(newOwner()), true)
				}
				at.wantResultOf(held)
			}
		}},
		{"its owner settles nothing once nothing was found", func(e *env) {
			held := e.held()
			rec := e.recover()
			e.nothingFound(rec, true, guard.RenewOK)
			e.unchanged(func() {
				e.wantReplace(held, guard.ReplaceStale)
				e.wantRelease(held, false)
			})
		}},
		{"the result of the one that took over settles it", func(e *env) {
			held := e.held()
			rec := e.recover()
			e.wantReplace(rec, guard.ReplaceStored)
			e.wantResult(e.stored(), rec.Owner)
			e.sameDispatch(e.stored().Dispatch, nil)
			e.unchanged(func() { e.wantReplace(held, guard.ReplaceStale) })
		}},
	}
}

// settlesWhatIsAsked wants the word of a held record's owner to count while another
// owner has taken over and only asks, and that one to learn that it lost the key.
func (e *env) settlesWhatIsAsked(settle func(held guard.Record)) {
	e.Helper()
	held := e.held()
	rec := e.recover()
	settle(held)
	if got := e.stored(); got.Fence < rec.Fence {
		e.Errorf("fence %d after fence %d", got.Fence, rec.Fence)
	}
	e.sameDispatch(e.stored().Dispatch, nil)
	e.wantLost(rec)
}

// wantResultOf wants the owner's result to be stored over another's record.
func (e *env) wantResultOf(held guard.Record) {
	e.Helper()
	e.wantReplace(held, guard.ReplaceRestored)
	e.wantResult(e.stored(), held.Owner)
}
