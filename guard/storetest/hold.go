package storetest

import (
	"time"

	"github.com/onceguard/onceguard/guard"
)

func holdClauses() []clause {
	return []clause{
		{"the caller's own reservation becomes held", func(e *env) {
			rec := e.dispatch(newOwner())
			e.wantHold(rec, guard.HoldHeld)
			e.wantOwnHeld(rec, evidence(rec))
		}},
		{"without evidence the caller's own is added", func(e *env) {
			rec := e.acquire(newOwner())
			e.ticks()
			e.wantHold(rec, guard.HoldHeld)
			e.wantOwnHeld(rec, e.heldNow(rec))
		}},
		{"it may come past the lease", func(e *env) {
			dead := e.dies()
			e.wantHold(dead, guard.HoldHeld)
			e.wantOwnHeld(dead, e.heldNow(dead))
		}},
		{"an owner that never learned of its reservation holds it", func(e *env) {
			rec := e.dispatch(newOwner())
			e.wantHold(guard.Record{Owner: rec.Owner}, guard.HoldHeld)
			e.wantOwnHeld(rec, evidence(rec))
		}},
		{"to hold again is to hold, for the retention from then on, and said to be again", func(e *env) {
			rec := e.dispatch(newOwner())
			want := guard.HoldHeld
			for _, keep := range []time.Duration{retention, holdRetention} {
				if got := e.holdFor(rec, keep); got != want {
					e.Fatalf("hold: %q, want %q", got, want)
				}
				want = guard.HoldAgain
				e.wantLeft(e.load().Left, keep)
			}
			e.wantOwnHeld(rec, evidence(rec))
		}},
		{"its owner holds it again after others have found it dead", func(e *env) {
			held := e.foundHeld()
			e.wantHold(held, guard.HoldAgain)
			e.wantOwnHeld(held, evidence(held))
		}},
		{"one with the evidence of an earlier owner goes back to that one", func(e *env) {
			held := e.held()
			rec := e.recover()
			e.wantHold(rec, guard.HoldHeld)
			loaded := e.load()
			e.wantHeld(loaded.Record, evidence(held))
			e.wantLeft(loaded.Left, holdRetention)
			if loaded.Record.Fence != rec.Fence {
				e.Errorf("fence %d, want %d", loaded.Record.Fence, rec.Fence)
			}
			e.wantReplace(held, guard.ReplaceStored)
		}},
		{"a repeat by the one that gave it back is again, until somebody has settled it", func(e *env) {
			held := e.held()
			rec := e.recover()
			e.wantHold(rec, guard.HoldHeld)
			e.wantHold(rec, guard.HoldAgain)
			e.wantHeld(e.stored(), evidence(held))
			e.wantTombstone(held)
			e.keeps(rec)
		}},
		{"a repeat by the one that gave it back leaves the tombstone of a later run", func(e *env) {
			e.held()
			rec := e.recover()
			e.wantHold(rec, guard.HoldHeld)
			next := e.recover()
			e.nothingFound(next, true, guard.RenewOK)
			e.wantRelease(next, true)
			e.keeps(rec)
		}},
		{"others are kept out, but for those who recover", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantHold(rec, guard.HoldHeld)
			held := e.stored()
			e.unchanged(func() { e.wantHeldNow(e.reserve(newOwner()), false) })
			next := e.recover()
			e.samePrevious(next.TookOver, tookOver(held))
			e.sameDispatch(next.Dispatch, held.Dispatch)
		}},
		{"another owner's live reservation stays", func(e *env) {
			dead := e.dies()
			e.acquire(newOwner())
			e.keeps(dead)
		}},
		{"another owner's dispatched reservation stays, live or expired", func(e *env) {
			dead := e.dies()
			live := e.diesDispatched()
			e.keeps(dead)
			e.wantRenew(live, guard.RenewOK)
			e.keeps(dead)
		}},
		{"another owner's result stays", func(e *env) {
			dead := e.dies()
			e.completed()
			e.keeps(dead)
		}},
		{"the owner's result stays", func(e *env) { e.keeps(e.completed()) }},
		{"the owner's tombstone stays", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			e.keeps(rec)
		}},
		{"a late hold and a takeover never both succeed", func(e *env) {
			e.holder()
			e.eitherOr(func(at *env, dead guard.Record) bool { return at.holdFor(dead, retention) == guard.HoldHeld })
		}},
	}
}

// putInPlaceClauses are about holds whose reservation is gone.
func putInPlaceClauses() []clause {
	return []clause{
		{"a missing record is put in place with its evidence", func(e *env) {
			rec := e.dispatch(newOwner())
			e.lose()
			e.wantHold(rec, guard.HoldRestored)
			e.wantOwnHeld(rec, evidence(rec))
		}},
		{"a missing record without evidence gets the caller's own", func(e *env) {
			rec := e.lost(longLease)
			e.holder()
			e.wantHold(rec, guard.HoldRestored)
			e.wantOwnHeld(rec, e.heldNow(rec))
		}},
		{"a missing record with the evidence of an earlier owner is that one's", func(e *env) {
			held := e.held()
			rec := e.recover()
			e.lose()
			e.wantHold(rec, guard.HoldRestored)
			e.wantGivenBack(held, rec)
		}},
		{"so it is only before the lease end that the owner last saw", func(e *env) {
			e.held()
			req := recovering()
			req.Lease = e.harness.ShortLease
			rec := e.acquired(e.ask(req))
			e.waitOver()
			e.lose()
			e.wantHold(rec, guard.HoldRefused)
			if e.load().Found {
				e.Error("a record has been put in place")
			}
		}},
		{"an owner without a reservation holds a free key", func(e *env) {
			owner := newOwner()
			e.wantHold(guard.Record{Owner: owner, Fingerprint: input()}, guard.HoldRestored)
			got := e.stored()
			if got.Fence <= 0 || got.Attempt < 1 || got.Created.IsZero() || got.Fingerprint != input() {
				e.Errorf("fence %d, attempt %d, created %s, fingerprint %+v", got.Fence, got.Attempt, got.Created, got.Fingerprint)
			}
			e.wantHeld(got, &guard.Dispatch{Owner: owner, Fence: got.Fence, At: got.Updated})
		}},
		{"another owner's tombstone is replaced", func(e *env) {
			dead := e.dies()
			other := e.acquire(newOwner())
			e.wantRelease(other, true)
			e.takesPlace(dead, other)
		}},
		{"another owner's expired reservation that was not dispatched is replaced", func(e *env) {
			first := e.dies()
			second := e.dies()
			e.takesPlace(first, second)
		}},
		{"another owner's expired result is replaced", func(e *env) {
			dead := e.dies()
			other := e.acquire(newOwner())
			e.replaceWith(other, receipt, e.harness.ShortLease)
			e.waitOver()
			e.wantHold(dead, guard.HoldRestored)
			e.wantState(e.stored(), guard.StatusHeld, dead.Owner)
		}},
	}
}

// heldNow is the evidence that the stored record's last write has added.
func (e *env) heldNow(rec guard.Record) *guard.Dispatch {
	e.Helper()
	return &guard.Dispatch{Owner: rec.Owner, Fence: rec.Fence, At: e.stored().Updated}
}

// wantOwnHeld wants the acquisition to be held, with this evidence of its owner's.
func (e *env) wantOwnHeld(rec guard.Record, dispatch *guard.Dispatch) {
	e.Helper()
	loaded := e.load()
	e.wantHeld(loaded.Record, dispatch)
	e.sameAcquisition(loaded.Record, rec)
	e.samePrevious(loaded.Record.TookOver, rec.TookOver)
	e.wantLeft(loaded.Left, holdRetention)
}

// keeps wants a hold of this owner to be refused and to change nothing.
func (e *env) keeps(rec guard.Record) {
	e.Helper()
	e.unchanged(func() { e.wantHold(rec, guard.HoldRefused) })
}

// takesPlace wants a hold of the one to replace the record of the other.
func (e *env) takesPlace(rec, replaced guard.Record) {
	e.Helper()
	e.wantHold(rec, guard.HoldRestored)
	got := e.stored()
	e.wantState(got, guard.StatusHeld, rec.Owner)
	if got.Fence < replaced.Fence || got.Fence < rec.Fence {
		e.Errorf("fence %d, want at least %d and %d", got.Fence, replaced.Fence, rec.Fence)
	}
	if got.Dispatch == nil || got.Dispatch.Owner != rec.Owner {
		e.Errorf("dispatched: %+v, want %+v", got.Dispatch, rec.Owner)
	}
	e.unchanged(func() {
		e.wantLost(replaced)
		e.wantReplace(replaced, guard.ReplaceStale)
		e.wantHold(replaced, guard.HoldRefused)
	})
}
