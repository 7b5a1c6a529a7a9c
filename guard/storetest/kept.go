package storetest

import (
	"time"

	"github.com/onceguard/onceguard/guard"
)

const keptFor = 5 * time.Minute

// keptClauses are about reservations that were left to a later completion.
func keptClauses() []clause {
	return []clause{
		{"a reservation that is kept says so and lasts as long as was asked", func(e *env) {
			rec := e.kept()
			e.wantKept(rec, 5)
			e.wantLeft(e.load().Left, keptFor)
		}},
		{"a later turn of the same job takes it over at once", func(e *env) {
			old := e.kept()
			next := e.acquired(e.turn("job", 6))
			e.samePrevious(next.TookOver, tookOver(old))
			e.higher(next.Fence, old.Fence)
			if kept := e.stored().Kept; kept != nil {
				e.Errorf("the takeover is kept by turn %+v itself", *kept)
			}
			e.wantReplace(old, guard.ReplaceStale)
			e.wantRenew(old, guard.RenewLost)
		}},
		{"nobody else takes it", func(e *env) {
			e.kept()
			e.unchanged(func() {
				e.refused(e.turn("job", 5))
				e.refused(e.turn("job", 4))
				e.refused(e.turn("another job", 6))
				e.refused(e.reserve(newOwner()))
			})
		}},
		{"a later turn does not take what is not kept", func(e *env) {
			rec := e.acquired(e.turn("job", 5))
			e.unchanged(func() { e.refused(e.turn("job", 6)) })
			e.wantRenew(rec, guard.RenewOK)
			e.refused(e.turn("job", 6))
		}},
		{"its owner completes it, and the record is kept no more", func(e *env) {
			rec := e.kept()
			e.wantReplace(rec, guard.ReplaceStored)
			e.unchanged(func() { e.refused(e.turn("job", 6)) })
			if kept := e.stored().Kept; kept != nil {
				e.Errorf("a result that is kept by turn %+v", *kept)
			}
		}},
		{"its owner releases it", func(e *env) {
			e.wantRelease(e.kept(), true)
			if kept := e.stored().Kept; kept != nil {
				e.Errorf("a tombstone that is kept by turn %+v", *kept)
			}
			e.acquired(e.reserve(newOwner()))
		}},
		{"a later renewal of its owner neither shortens it nor forgets it", func(e *env) {
			rec := e.kept()
			e.wantRenew(rec, guard.RenewOK)
			e.wantKept(e.stored(), 5)
			e.wantLeft(e.load().Left, keptFor)
		}},
		{"one that was lost is put back as kept", func(e *env) {
			rec := e.lost(longLease)
			e.keep(rec, 5, guard.RenewRestored)
			e.wantKept(e.stored(), 5)
		}},
	}
}

// turn reserves as a turn of a job.
func (e *env) turn(job string, number int64) guard.ReserveReply {
	e.Helper()
	reply, err := e.store.Reserve(e.ctx(), guard.ReserveRequest{
		Key: e.key, Owner: newOwner(), Fingerprint: input(), Lease: longLease, Retention: retention,
		Turn: &guard.Turn{Job: job, Number: number},
	})
	e.check("reserve", err)
	return reply
}

// kept is a reservation that turn 5 of "job" has left to a later completion.
func (e *env) kept() guard.Record {
	e.Helper()
	rec := e.acquired(e.reserveFor(newOwner(), e.harness.ShortLease))
	e.keep(rec, 5, guard.RenewOK)
	return e.stored()
}

func (e *env) keep(rec guard.Record, turn int64, want guard.RenewStatus) {
	e.Helper()
	reply, err := e.store.Renew(e.ctx(), guard.RenewRequest{
		Key: e.key, Record: rec, Lease: keptFor, Retention: retention, Keep: &guard.Turn{Job: "job", Number: turn},
	})
	e.check("renew", err)
	if reply.Status != want {
		e.Fatalf("renew: %q, want %q", reply.Status, want)
	}
}

func (e *env) wantKept(rec guard.Record, turn int64) {
	e.Helper()
	if want := (guard.Turn{Job: "job", Number: turn}); rec.Kept == nil || *rec.Kept != want {
		e.Errorf("kept by %+v, want %+v", rec.Kept, want)
	}
}
