package storetest

import (
	"time"

	"github.com/onceguard/onceguard/guard"
)

func reserveClauses() []clause {
	return []clause{
		{"a free key is acquired", freeKeyIsAcquired},
		{"a lease lasts as long as was asked for", leaseLasts},
		{"a live reservation keeps others out and says whose it is", func(e *env) {
			holder := e.acquire(newOwner())
			e.unchanged(func() {
				reply := e.reserve(newOwner())
				e.same(e.refused(reply), holder)
				e.wantLeft(reply.Left, longLease)
			})
		}},
		{"an expired reservation is taken over and names its previous owner", func(e *env) {
			dead := e.dies()
			rec := e.acquire(newOwner())
			e.samePrevious(rec.TookOver, &guard.Previous{Owner: dead.Owner, Fence: dead.Fence})
		}},
		{"a takeover is a new acquisition with a higher fence and one more attempt", func(e *env) {
			dead := e.dies()
			owner := newOwner()
			rec := e.acquire(owner)
			e.wantState(rec, guard.StatusPending, owner)
			if rec.Fence <= dead.Fence || rec.Attempt != dead.Attempt+1 || !rec.Created.After(dead.Created) {
				e.Errorf("fence %d, attempt %d, created %s after fence %d, attempt %d, created %s",
					rec.Fence, rec.Attempt, rec.Created, dead.Fence, dead.Attempt, dead.Created)
			}
			e.same(e.stored(), rec)
		}},
		{"a takeover names the owner before it, not the first one", func(e *env) {
			e.dies()
			second := e.dies()
			rec := e.acquire(newOwner())
			e.samePrevious(rec.TookOver, &guard.Previous{Owner: second.Owner, Fence: second.Fence})
		}},
		{"an owner whose reservation was taken over does not acquire it back", func(e *env) {
			dead := e.dies()
			holder := e.acquire(newOwner())
			e.same(e.refused(e.reserve(dead.Owner)), holder)
		}},
		{"another owner's tombstone is free and no takeover", func(e *env) {
			first := e.acquire(newOwner())
			e.wantRelease(first, true)
			rec := e.acquire(newOwner())
			e.samePrevious(rec.TookOver, nil)
			if rec.Attempt != first.Attempt+1 {
				e.Errorf("attempt %d after attempt %d", rec.Attempt, first.Attempt)
			}
		}},
		{"an owner does not acquire its own tombstone", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			e.unchanged(func() { e.wantState(e.refused(e.reserve(rec.Owner)), guard.StatusReleased, rec.Owner) })
		}},
		{"a result keeps others out and is the reply", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantReplace(rec, guard.ReplaceStored)
			e.unchanged(func() {
				reply := e.reserve(newOwner())
				e.wantResult(e.refused(reply), rec.Owner)
				e.wantLeft(reply.Left, retention)
			})
		}},
		{"a result past its retention is free and no takeover", func(e *env) {
			rec := e.acquire(newOwner())
			e.replaceWith(rec, receipt, e.harness.ShortLease)
			e.waitOver()
			e.samePrevious(e.acquire(newOwner()).TookOver, nil)
		}},
		{"a new acquisition has nothing of the result before it", func(e *env) {
			e.replaceWith(e.acquire(newOwner()), receipt, e.harness.ShortLease)
			e.waitOver()
			rec := e.acquire(newOwner())
			if len(rec.Result) != 0 || rec.Encoding != "" {
				e.Errorf("result %q (%s) in a reservation", rec.Result, rec.Encoding)
			}
		}},
		{"a dead owner's reservation stays readable for its retention", func(e *env) {
			dead := e.dies()
			reply := e.load()
			if !reply.Found || reply.Left != 0 {
				e.Fatalf("found %t, left %s", reply.Found, reply.Left)
			}
			e.same(reply.Record, dead)
		}},
	}
}

func repeatClauses() []clause {
	return []clause{
		{"a repeat with the same token is the same acquisition", func(e *env) {
			owner := newOwner()
			first := e.acquire(owner)
			again := e.acquire(owner)
			e.sameAcquisition(again, first)
			e.samePrevious(again.TookOver, nil)
		}},
		{"a repeat starts the lease anew", func(e *env) {
			owner := newOwner()
			first := e.acquired(e.reserveFor(owner, e.harness.ShortLease))
			reply := e.reserve(owner)
			again := e.acquired(reply)
			e.wantLeft(reply.Left, longLease)
			if !again.Until.After(first.Until) {
				e.Errorf("lease end %s after %s", again.Until, first.Until)
			}
		}},
		{"a repeat after the lease ran out is the same acquisition", func(e *env) {
			dead := e.dies()
			again := e.acquire(dead.Owner)
			e.sameAcquisition(again, dead)
			e.samePrevious(again.TookOver, nil)
			e.refused(e.reserve(newOwner()))
		}},
		{"a repeat of a takeover names the same previous owner", func(e *env) {
			dead := e.dies()
			owner := newOwner()
			first := e.acquire(owner)
			again := e.acquire(owner)
			e.sameAcquisition(again, first)
			e.samePrevious(again.TookOver, &guard.Previous{Owner: dead.Owner, Fence: dead.Fence})
		}},
		{"a repeat after a renewal is the same acquisition", func(e *env) {
			first := e.acquire(newOwner())
			e.wantRenew(first, guard.RenewOK)
			e.sameAcquisition(e.acquire(first.Owner), first)
		}},
		{"a result is not acquired again by the token that stored it", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantReplace(rec, guard.ReplaceStored)
			e.unchanged(func() { e.wantResult(e.refused(e.reserve(rec.Owner)), rec.Owner) })
		}},
	}
}

func fenceClauses() []clause {
	return []clause{
		{"it grows with every acquisition, however fast they come", func(e *env) {
			var last int64
			for range 200 {
				rec := e.acquire(newOwner())
				last = e.higher(rec.Fence, last)
				e.release(rec)
			}
		}},
		{"it grows over tombstones that ran out", func(e *env) {
			first := e.acquire(newOwner())
			e.releaseFor(first, e.harness.ShortLease)
			e.waitOver()
			e.higher(e.acquire(newOwner()).Fence, first.Fence)
		}},
		{"it grows over results that ran out", func(e *env) {
			first := e.acquire(newOwner())
			e.replaceWith(first, receipt, e.harness.ShortLease)
			e.waitOver()
			e.higher(e.acquire(newOwner()).Fence, first.Fence)
		}},
		{"it grows when the clock is behind it, as after a failover", func(e *env) {
			rec := e.lost(longLease)
			rec.Fence += time.Hour.Microseconds()
			e.wantRenew(rec, guard.RenewRestored)
			e.wantRelease(rec, true)
			second := e.acquire(newOwner())
			e.higher(second.Fence, rec.Fence)
			e.wantRelease(second, true)
			e.higher(e.acquire(newOwner()).Fence, second.Fence)
		}},
		{"it grows over records that were lost", func(e *env) {
			if e.harness.Lose == nil {
				e.Skip("the harness cannot lose a record")
			}
			first := e.lost(longLease)
			e.higher(e.acquire(newOwner()).Fence, first.Fence)
		}},
		{"it stays through renewals, the result and the tombstone", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRenew(rec, guard.RenewOK)
			e.sameAcquisition(e.stored(), rec)
			e.wantReplace(rec, guard.ReplaceStored)
			e.sameAcquisition(e.stored(), rec)

			other := e.at(newKey())
			rec = other.acquire(newOwner())
			other.wantRelease(rec, true)
			other.sameAcquisition(other.stored(), rec)
		}},
	}
}

func freeKeyIsAcquired(e *env) {
	owner := newOwner()
	reply := e.reserve(owner)
	rec := e.acquired(reply)
	e.wantState(rec, guard.StatusPending, owner)
	if rec.Version != guard.SchemaVersion {
		e.Errorf("version %d, want %d", rec.Version, guard.SchemaVersion)
	}
	if rec.Fence <= 0 || rec.Attempt != 1 {
		e.Errorf("fence %d, attempt %d, want a positive fence and attempt 1", rec.Fence, rec.Attempt)
	}
	if rec.Owner != owner || rec.Fingerprint != input() {
		e.Errorf("owner %+v, fingerprint %+v", rec.Owner, rec.Fingerprint)
	}
	e.samePrevious(rec.TookOver, nil)
	e.same(e.stored(), rec)
}

func leaseLasts(e *env) {
	reply := e.reserveFor(newOwner(), longLease)
	rec := e.acquired(reply)
	e.wantLeft(reply.Left, longLease)
	// The record's times are readings of one clock, so they can be subtracted.
	if lease := rec.Until.Sub(rec.Updated); lease < longLease-time.Millisecond || lease > longLease+time.Millisecond {
		e.Errorf("lease of %s, want %s", lease, longLease)
	}
	if !rec.Created.Equal(rec.Updated) {
		e.Errorf("created %s, updated %s by the same write", rec.Created, rec.Updated)
	}
}

// wantLeft allows for the time that the test itself may have taken.
func (e *env) wantLeft(left, whole time.Duration) {
	e.Helper()
	if left > whole+time.Millisecond || left < whole-patience {
		e.Errorf("%s left of %s", left, whole)
	}
}

func (e *env) higher(fence, than int64) int64 {
	e.Helper()
	if fence <= than {
		e.Fatalf("fence %d after fence %d", fence, than)
	}
	return fence
}
