package storetest

import (
	"time"

	"github.com/onceguard/onceguard/guard"
)

func replaceClauses() []clause {
	return []clause{
		{"the owner's reservation becomes its result", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantReplace(rec, guard.ReplaceStored)
			got := e.stored()
			e.wantResult(got, rec.Owner)
			e.sameAcquisition(got, rec)
			if got.Version != guard.SchemaVersion {
				e.Errorf("version %d, want %d", got.Version, guard.SchemaVersion)
			}
		}},
		{"a result is kept for its retention, shorter than the lease or longer", func(e *env) {
			for _, keep := range []time.Duration{30 * time.Second, 72 * time.Hour} {
				at := e.at(newKey())
				rec := at.acquire(newOwner())
				at.replaceWith(rec, receipt, keep)
				loaded := at.load()
				at.wantLeft(loaded.Left, keep)
				if kept := loaded.Record.Until.Sub(loaded.Record.Updated); kept < keep-time.Millisecond {
					e.Errorf("kept for %s, want %s", kept, keep)
				}
			}
		}},
		{"a late result of a reservation that nobody took is stored", func(e *env) {
			dead := e.dies()
			e.wantReplace(dead, guard.ReplaceStored)
			e.sameAcquisition(e.stored(), dead)
			e.wantResult(e.refused(e.reserve(newOwner())), dead.Owner)
		}},
		{"an owner's own result stays, whatever it stores again", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantReplace(rec, guard.ReplaceStored)
			e.unchanged(func() {
				e.wantReplace(rec, guard.ReplaceSettled)
				e.wantFail(rec, guard.ReplaceSettled)
			})
			e.wantResult(e.stored(), rec.Owner)
			e.sameAcquisition(e.stored(), rec)
		}},
		{"an owner's own result past its retention is stored anew", func(e *env) {
			rec := e.acquire(newOwner())
			e.replaceWith(rec, `"first"`, e.harness.ShortLease)
			e.waitOver()
			if status := e.replace(rec); status != guard.ReplaceStored && status != guard.ReplaceRestored {
				e.Errorf("replace: %q, want that it is stored", status)
			}
			e.wantResult(e.stored(), rec.Owner)
		}},
		{"an owner that never learned of its reservation stores into it", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantReplace(guard.Record{Owner: rec.Owner, Fingerprint: rec.Fingerprint}, guard.ReplaceStored)
			e.wantResult(e.stored(), rec.Owner)
			e.sameAcquisition(e.stored(), rec)
		}},
		{"another owner's live reservation makes it stale and stays", func(e *env) {
			dead := e.dies()
			e.acquire(newOwner())
			e.unchanged(func() { e.wantReplace(dead, guard.ReplaceStale) })
		}},
		{"another owner's live result makes it stale and stays", func(e *env) {
			dead := e.dies()
			e.wantReplace(e.acquire(newOwner()), guard.ReplaceStored)
			e.unchanged(func() { e.wantReplace(dead, guard.ReplaceStale) })
		}},
		{"the owner's own tombstone makes it stale and stays", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			e.unchanged(func() { e.wantReplace(rec, guard.ReplaceStale) })
		}},
		{"a stale result is stale again", func(e *env) {
			dead := e.dies()
			holder := e.acquire(newOwner())
			e.wantReplace(dead, guard.ReplaceStale)
			e.wantReplace(holder, guard.ReplaceStored)
			e.wantReplace(dead, guard.ReplaceStale)
			e.wantResult(e.stored(), holder.Owner)
		}},
	}
}

// orphanClauses are about results whose reservation is gone.
func orphanClauses() []clause {
	return []clause{
		{"a missing record is restored with the result", func(e *env) {
			rec := e.lost(longLease)
			e.wantReplace(rec, guard.ReplaceRestored)
			e.wantResult(e.stored(), rec.Owner)
			e.sameAcquisition(e.stored(), rec)
		}},
		{"a missing record is restored past the lease end too", func(e *env) {
			clock := e.at(newKey())
			rec := e.lost(e.harness.ShortLease)
			clock.dies()
			e.wantReplace(rec, guard.ReplaceRestored)
			e.wantResult(e.stored(), rec.Owner)
		}},
		{"another owner's tombstone is replaced", func(e *env) {
			dead := e.dies()
			other := e.acquire(newOwner())
			e.wantRelease(other, true)
			e.wantReplace(dead, guard.ReplaceRestored)
			e.wantOrphan(dead, other)
		}},
		{"another owner's expired reservation is replaced", func(e *env) {
			first := e.dies()
			second := e.dies()
			e.wantReplace(first, guard.ReplaceRestored)
			e.wantOrphan(first, second)
			e.unchanged(func() { e.wantReplace(second, guard.ReplaceStale) })
		}},
		{"another owner's expired result is replaced", func(e *env) {
			dead := e.dies()
			other := e.acquire(newOwner())
			e.replaceWith(other, `"of the other"`, e.harness.ShortLease)
			e.waitOver()
			e.wantReplace(dead, guard.ReplaceRestored)
			e.wantResult(e.stored(), dead.Owner)
		}},
		{"an owner without a reservation stores into a free key", func(e *env) {
			owner := newOwner()
			e.wantReplace(guard.Record{Owner: owner, Fingerprint: input()}, guard.ReplaceRestored)
			got := e.stored()
			e.wantResult(got, owner)
			if got.Owner != owner || got.Fingerprint != input() {
				e.Errorf("owner %+v, fingerprint %+v", got.Owner, got.Fingerprint)
			}
			if got.Fence <= 0 || got.Attempt < 1 || got.Created.IsZero() {
				e.Errorf("fence %d, attempt %d, created %s", got.Fence, got.Attempt, got.Created)
			}
		}},
		{"an owner without a reservation replaces what is free", func(e *env) {
			dead := e.dies()
			owner := newOwner()
			e.wantReplace(guard.Record{Owner: owner}, guard.ReplaceRestored)
			e.wantOrphan(guard.Record{Owner: owner}, dead)
		}},
		{"an owner without a reservation is stale beside a live one", func(e *env) {
			e.acquire(newOwner())
			e.unchanged(func() { e.wantReplace(guard.Record{Owner: newOwner()}, guard.ReplaceStale) })
		}},
		{"the fence grows on after a restored result", func(e *env) {
			first := e.dies()
			second := e.dies()
			e.replaceWith(first, receipt, e.harness.ShortLease)
			e.waitOver()
			e.higher(e.acquire(newOwner()).Fence, second.Fence)
		}},
	}
}

// wantOrphan checks the result of an owner that replaced a record of another.
func (e *env) wantOrphan(rec, replaced guard.Record) {
	e.Helper()
	got := e.stored()
	e.wantResult(got, rec.Owner)
	if got.Fence < replaced.Fence || got.Fence < rec.Fence {
		e.Errorf("fence %d, want at least %d and %d", got.Fence, replaced.Fence, rec.Fence)
	}
}
