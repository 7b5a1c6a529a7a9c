package storetest

import (
	"time"

	"github.com/onceguard/onceguard/guard"
)

// failedClauses are about errors that are remembered: but for the status they are
// results.
func failedClauses() []clause {
	return []clause{
		{"the owner's reservation becomes its error", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantFail(rec, guard.ReplaceStored)
			got := e.stored()
			e.wantFailed(got, rec.Owner)
			e.sameAcquisition(got, rec)
			if got.Version != guard.SchemaVersion {
				e.Errorf("version %d, want %d", got.Version, guard.SchemaVersion)
			}
		}},
		{"it comes back byte for byte, and so does its encoding", func(e *env) {
			for _, text := range results() {
				at := e.at(newKey())
				at.wantFailedAs(text, encoding)
			}
			for _, text := range lookalikes() {
				at := e.at(newKey())
				at.wantFailedAs(refusal, text)
			}
		}},
		{"it keeps others out and is the reply", func(e *env) {
			failed := e.failed()
			e.unchanged(func() {
				reply := e.reserve(newOwner())
				e.wantFailed(e.refused(reply), failed.Owner)
				e.wantLeft(reply.Left, retention)
				e.wantFailed(e.refused(e.ask(recovering())), failed.Owner)
			})
		}},
		{"past its retention it is free and no takeover", func(e *env) {
			rec := e.acquire(newOwner())
			e.failAs(rec, refusal, encoding, e.harness.ShortLease)
			e.waitOver()
			next := e.acquire(newOwner())
			e.samePrevious(next.TookOver, nil)
			e.higher(next.Fence, rec.Fence)
			if len(next.Result) != 0 || next.Encoding != "" {
				e.Errorf("result %q (%s) in a reservation", next.Result, next.Encoding)
			}
		}},
		{"the named error that cannot be decoded is acquired, and is no takeover", func(e *env) {
			failed := e.failed()
			rec := e.acquired(e.heal(seen(failed)))
			e.samePrevious(rec.TookOver, nil)
			e.higher(rec.Fence, failed.Fence)
		}},
		{"another error than the named one stays", func(e *env) {
			failed := e.failed()
			e.unchanged(func() {
				e.refused(e.heal(&guard.Seen{OwnerToken: failed.Owner.Token, Fence: failed.Fence - 1}))
				e.refused(e.heal(&guard.Seen{OwnerToken: newOwner().Token, Fence: failed.Fence}))
			})
		}},
		{"its owner neither renews, releases, holds nor acquires it", func(e *env) {
			failed := e.failed()
			e.unchanged(func() {
				e.wantLost(failed)
				e.mark(failed, guard.RenewLost)
				e.wantRelease(failed, false)
				e.wantHold(failed, guard.HoldRefused)
				e.wantFailed(e.refused(e.reserve(failed.Owner)), failed.Owner)
			})
		}},
		{"another owner neither replaces, renews, releases nor holds it", func(e *env) {
			dead := e.dies()
			e.failed()
			e.unchanged(func() {
				e.wantReplace(dead, guard.ReplaceStale)
				e.wantFail(dead, guard.ReplaceStale)
				e.wantLost(dead)
				e.wantRelease(dead, false)
				e.wantHold(dead, guard.HoldRefused)
			})
		}},
		{"it stays, whatever its owner stores again", func(e *env) {
			failed := e.failed()
			e.unchanged(func() {
				e.wantFail(failed, guard.ReplaceSettled)
				e.wantReplace(failed, guard.ReplaceSettled)
			})
			e.wantFailed(e.stored(), failed.Owner)
		}},
		{"a missing record is restored with it", func(e *env) {
			rec := e.lost(longLease)
			e.wantFail(rec, guard.ReplaceRestored)
			e.wantFailed(e.stored(), rec.Owner)
			e.sameAcquisition(e.stored(), rec)
		}},
		{"the owner's own tombstone makes it stale and stays", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			e.unchanged(func() { e.wantFail(rec, guard.ReplaceStale) })
		}},
		{"of a dispatched reservation it leaves no evidence", func(e *env) {
			rec := e.dispatch(newOwner())
			e.wantFail(rec, guard.ReplaceStored)
			e.sameDispatch(e.stored().Dispatch, nil)
		}},
	}
}

// lateClauses are about results that come while another owner's effect may have
// happened.
func lateClauses() []clause {
	return []clause{
		{"another owner's expired dispatched reservation makes it stale and stays", func(e *env) {
			dead := e.dies()
			e.diesDispatched()
			e.unchanged(func() {
				e.wantReplace(dead, guard.ReplaceStale)
				e.wantFail(dead, guard.ReplaceStale)
				e.wantReplace(guard.Record{Owner: newOwner()}, guard.ReplaceStale)
			})
		}},
		{"its owner's is stored past the lease", func(e *env) {
			dead := e.diesDispatched()
			e.wantReplace(dead, guard.ReplaceStored)
			e.wantResult(e.stored(), dead.Owner)
			e.sameDispatch(e.stored().Dispatch, nil)
		}},
		{"a late renewal, and a reserve that makes it held, never both succeed", func(e *env) {
			e.neverBoth(func(at *env, dead guard.Record) bool { return at.renew(dead).Status == guard.RenewOK })
		}},
		{"a late release wins over a reserve that makes it held", func(e *env) {
			for range rounds {
				at := e.at(newKey())
				dead := at.diesAtOnce()
				at.together(2, func(i int) {
					if i == 0 {
						at.wantRelease(dead, true)
					} else {
						at.reserve(newOwner())
					}
				})
				if rec := at.stored(); rec.Status == guard.StatusHeld {
					e.Fatal("held after its owner's release")
				}
			}
		}},
	}
}

// diesAtOnce is diesDispatched with a lease that is over at once.
func (e *env) diesAtOnce() guard.Record {
	e.Helper()
	rec := e.acquired(e.ask(guard.ReserveRequest{Owner: newOwner(), Dispatched: true, Lease: time.Millisecond}))
	e.waitOver()
	return rec
}

// neverBoth races what a dead owner does late against a reserve that makes its
// record held.
func (e *env) neverBoth(late func(at *env, dead guard.Record) bool) {
	e.Helper()
	for range rounds {
		at := e.at(newKey())
		dead := at.diesAtOnce()
		var succeeded, held bool
		at.together(2, func(i int) {
			if i == 0 {
				succeeded = late(at, dead)
			} else {
				held = at.reserve(newOwner()).Held
			}
		})
		if succeeded == held {
			e.Fatalf("late owner succeeded: %t, made held: %t", succeeded, held)
		}
	}
}

// refusal is an error in its stored form.
const refusal = `{"code":"card_declined"}`

// failed is a record with an error.
func (e *env) failed() guard.Record {
	e.Helper()
	e.wantFail(e.acquire(newOwner()), guard.ReplaceStored)
	return e.stored()
}

func (e *env) failAs(rec guard.Record, text, encoding string, keep time.Duration) guard.ReplaceStatus {
	e.Helper()
	e.holder()
	reply, err := e.store.Replace(e.ctx(), guard.ReplaceRequest{
		Key: e.key, Record: rec, Failed: true, Encoding: encoding, Result: []byte(text),
		Lease: e.harness.ShortLease, Retention: keep,
	})
	e.check("replace with an error", err)
	return reply.Status
}

func (e *env) wantFail(rec guard.Record, want guard.ReplaceStatus) {
	e.Helper()
	if got := e.failAs(rec, refusal, encoding, retention); got != want {
		e.Fatalf("replace with an error: %q, want %q", got, want)
	}
}

// wantFailed compares the record with the refusal as the error of this owner.
func (e *env) wantFailed(rec guard.Record, owner guard.Owner) {
	e.Helper()
	e.wantState(rec, guard.StatusFailed, owner)
	if string(rec.Result) != refusal || rec.Encoding != encoding {
		e.Errorf("error: %.40q (%s), want %q (%s)", rec.Result, rec.Encoding, refusal, encoding)
	}
}

// wantFailedAs stores an error and wants it back as it is.
func (e *env) wantFailedAs(text, encoding string) {
	e.Helper()
	e.failAs(e.acquire(newOwner()), text, encoding, retention)
	for _, got := range []guard.Record{e.stored(), e.refused(e.reserve(newOwner()))} {
		if string(got.Result) != text || got.Encoding != encoding || got.Status != guard.StatusFailed {
			e.Errorf("%s error of %d bytes (%q), want %d bytes (%q)", got.Status, len(got.Result), got.Encoding, len(text), encoding)
		}
	}
}
