package storetest

import "github.com/onceguard/onceguard/guard"

func loadClauses() []clause {
	return []clause{
		{"a key without a record has none", func(e *env) {
			if reply := e.load(); reply.Found || reply.Left != 0 {
				e.Errorf("found %t, left %s", reply.Found, reply.Left)
			}
		}},
		{"a reservation is found with the lease left", func(e *env) {
			rec := e.acquire(newOwner())
			reply := e.load()
			e.same(reply.Record, rec)
			e.wantLeft(reply.Left, longLease)
		}},
		{"an expired reservation is found with nothing left", func(e *env) {
			dead := e.dies()
			reply := e.load()
			e.same(reply.Record, dead)
			if !reply.Found || reply.Left != 0 {
				e.Errorf("found %t, left %s", reply.Found, reply.Left)
			}
		}},
		{"a result is found with the retention left", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantReplace(rec, guard.ReplaceStored)
			reply := e.load()
			e.wantResult(reply.Record, rec.Owner)
			e.wantLeft(reply.Left, retention)
		}},
		{"a tombstone is found", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			e.wantState(e.stored(), guard.StatusReleased, rec.Owner)
		}},
		{"what is left grows less", func(e *env) {
			e.acquire(newOwner())
			before := e.load()
			e.until("less is left", func() bool { return e.load().Left < before.Left })
		}},
		{"a look changes nothing", func(e *env) {
			e.acquire(newOwner())
			e.unchanged(func() { e.load() })
		}},
	}
}
