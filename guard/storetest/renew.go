package storetest

import "github.com/onceguard/onceguard/guard"

func renewClauses() []clause {
	return []clause{
		{"it never shortens a lease", func(e *env) {
			owner := newOwner()
			long := e.acquired(e.reserveFor(owner, 10*longLease))
			for range 2 { // a renewal, then a reserve of the same owner
				e.wantRenew(long, guard.RenewOK)
				if left := e.load().Left; left <= 2*longLease {
					e.Errorf("%s left after a shorter renewal, want the longer lease", left)
				}
				e.acquired(e.reserve(owner))
			}
		}},
		{"a renewal starts the lease anew and replies with its end", func(e *env) {
			rec := e.acquired(e.reserveFor(newOwner(), e.harness.ShortLease))
			reply := e.wantRenew(rec, guard.RenewOK)
			if !reply.Until.After(rec.Until) {
				e.Errorf("lease end %s after %s", reply.Until, rec.Until)
			}
			loaded := e.load()
			e.wantLeft(loaded.Left, longLease)
			if !loaded.Record.Until.Equal(reply.Until) {
				e.Errorf("lease end %s in the record, %s in the reply", loaded.Record.Until, reply.Until)
			}
		}},
		{"a renewal changes nothing but the lease", func(e *env) {
			e.dies()
			rec := e.acquire(newOwner())
			e.wantRenew(rec, guard.RenewOK)
			renewed := e.stored()
			e.wantState(renewed, guard.StatusPending, rec.Owner)
			e.sameAcquisition(renewed, rec)
			e.samePrevious(renewed.TookOver, rec.TookOver)
		}},
		{"a late renewal of a reservation that nobody took is ok", func(e *env) {
			dead := e.dies()
			e.wantRenew(dead, guard.RenewOK)
			e.sameAcquisition(e.refused(e.reserve(newOwner())), dead)
		}},
		{"a renewal does not need to know the lease end", func(e *env) {
			owner := newOwner()
			e.acquire(owner)
			e.wantRenew(guard.Record{Owner: owner}, guard.RenewOK)
		}},
		{"after a takeover it is lost and changes nothing", func(e *env) {
			dead := e.dies()
			e.acquire(newOwner())
			e.unchanged(func() { e.wantLost(dead) })
		}},
		{"after a takeover it is lost even when the new lease has run out", func(e *env) {
			first := e.dies()
			e.dies()
			e.unchanged(func() { e.wantLost(first) })
		}},
		{"a missing record is put back whole before the acknowledged lease end", func(e *env) {
			rec := e.lost(longLease)
			reply := e.wantRenew(rec, guard.RenewRestored)
			restored := e.stored()
			e.wantState(restored, guard.StatusPending, rec.Owner)
			e.sameAcquisition(restored, rec)
			if !restored.Until.Equal(reply.Until) {
				e.Errorf("lease end %s in the record, %s in the reply", restored.Until, reply.Until)
			}
			e.refused(e.reserve(newOwner()))
			e.wantRenew(rec, guard.RenewOK)
		}},
		{"a restored takeover names its previous owner", func(e *env) {
			rec := e.lost(longLease)
			rec.TookOver = &guard.Previous{Owner: newOwner(), Fence: rec.Fence - 1}
			e.wantRenew(rec, guard.RenewRestored)
			e.samePrevious(e.stored().TookOver, rec.TookOver)
		}},
		{"a missing record is lost after the acknowledged lease end", func(e *env) {
			clock := e.at(newKey())
			rec := e.lost(e.harness.ShortLease)
			clock.dies() // reserved later with the same lease, so the other's has run out too
			e.unchanged(func() { e.wantLost(rec) })
		}},
		{"a missing record is lost when no lease end was acknowledged", func(e *env) {
			e.unchanged(func() { e.wantLost(guard.Record{Owner: newOwner(), Status: guard.StatusPending}) })
		}},
		{"a tombstone is not brought back by its owner", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			e.unchanged(func() { e.wantLost(rec) })
		}},
		{"a result is not brought back to pending by its owner", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantReplace(rec, guard.ReplaceStored)
			e.unchanged(func() { e.wantLost(rec) })
		}},
		{"another owner's tombstone is lost", func(e *env) {
			dead := e.dies()
			e.wantRelease(e.acquire(newOwner()), true)
			e.unchanged(func() { e.wantLost(dead) })
		}},
		{"another owner's result is lost", func(e *env) {
			dead := e.dies()
			e.wantReplace(e.acquire(newOwner()), guard.ReplaceStored)
			e.unchanged(func() { e.wantLost(dead) })
		}},
	}
}

func (e *env) wantLost(rec guard.Record) {
	e.Helper()
	if reply := e.wantRenew(rec, guard.RenewLost); !reply.Until.IsZero() {
		e.Errorf("lost, yet with a lease end %s", reply.Until)
	}
}
