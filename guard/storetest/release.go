package storetest

import "github.com/onceguard/onceguard/guard"

func releaseClauses() []clause {
	return []clause{
		{"the tombstone of an owner that never learned of its reservation is whole", func(e *env) {
			e.wantRelease(guard.Record{Owner: newOwner()}, false)
			if rec := e.stored(); rec.Attempt != 1 || rec.Created.IsZero() || rec.Fence == 0 {
				e.Errorf("attempt %d, created %s, fence %d", rec.Attempt, rec.Created, rec.Fence)
			}
		}},
		{"a repeat leaves the tombstone as it is", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			e.unchanged(func() { e.wantRelease(rec, true) })
		}},
		{"the owner's reservation becomes a tombstone that lives one lease", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			loaded := e.load()
			e.wantState(loaded.Record, guard.StatusReleased, rec.Owner)
			e.wantLeft(loaded.Left, longLease)
			if loaded.Record.Version != guard.SchemaVersion {
				e.Errorf("version %d, want %d", loaded.Record.Version, guard.SchemaVersion)
			}
		}},
		{"the key is free to others at once", func(e *env) {
			e.wantRelease(e.acquire(newOwner()), true)
			e.acquire(newOwner())
		}},
		{"a late release of a reservation that nobody took frees it", func(e *env) {
			dead := e.dies()
			e.wantRelease(dead, true)
			e.samePrevious(e.acquire(newOwner()).TookOver, nil)
		}},
		{"a second release says the same and changes nothing that counts", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			e.wantRelease(rec, true)
			e.wantState(e.stored(), guard.StatusReleased, rec.Owner)
			e.sameAcquisition(e.stored(), rec)
		}},
		{"an owner that never learned of its reservation releases it", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(guard.Record{Owner: rec.Owner}, true)
			e.wantState(e.stored(), guard.StatusReleased, rec.Owner)
			e.higher(e.acquire(newOwner()).Fence, rec.Fence)
		}},
		{"another owner's reservation stays", func(e *env) {
			dead := e.dies()
			e.acquire(newOwner())
			e.unchanged(func() { e.wantRelease(dead, false) })
		}},
		{"another owner's expired reservation stays", func(e *env) {
			first := e.dies()
			e.dies()
			e.unchanged(func() { e.wantRelease(first, false) })
		}},
		{"another owner's result stays", func(e *env) {
			dead := e.dies()
			e.wantReplace(e.acquire(newOwner()), guard.ReplaceStored)
			e.unchanged(func() { e.wantRelease(dead, false) })
		}},
		{"another owner's tombstone stays", func(e *env) {
			dead := e.dies()
			e.wantRelease(e.acquire(newOwner()), true)
			e.unchanged(func() { e.wantRelease(dead, false) })
		}},
		{"the owner's result stays", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantReplace(rec, guard.ReplaceStored)
			e.unchanged(func() { e.wantRelease(rec, false) })
		}},
		{"a missing record becomes a tombstone that a delayed reserve finds", func(e *env) {
			owner := newOwner()
			e.wantRelease(guard.Record{Owner: owner}, false)
			e.wantState(e.refused(e.reserve(owner)), guard.StatusReleased, owner)
			e.acquire(newOwner())
		}},
		{"a missing record becomes a tombstone that a delayed renewal finds", func(e *env) {
			rec := e.lost(longLease)
			e.wantRelease(rec, false)
			e.unchanged(func() { e.wantLost(rec) })
			e.higher(e.acquire(newOwner()).Fence, rec.Fence)
		}},
		{"a tombstone ends", func(e *env) {
			e.releaseFor(e.acquire(newOwner()), e.harness.ShortLease)
			e.waitOver()
			e.acquire(newOwner())
		}},
	}
}
