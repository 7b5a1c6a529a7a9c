package storetest

import "github.com/onceguard/onceguard/guard"

// eraseClauses hold for a store that is a [guard.Eraser].
func eraseClauses() []clause {
	return []clause{
		{"a result is forgotten and the key is free", func(e *env) {
			e.completed()
			e.wantErased()
			if rec := e.acquire(newOwner()); rec.TookOver != nil {
				e.Errorf("it took over from %+v, want nobody", rec.TookOver)
			}
		}},
		{"a late write of its owner does not bring it back", func(e *env) {
			done := e.completed()
			e.wantErased()
			e.unchanged(func() {
				e.wantReplace(done, guard.ReplaceStale)
				e.wantLost(done)
				e.refused(e.reserve(done.Owner))
			})
		}},
		{"a key without a record is erased already", func(e *env) { e.wantErased() }},
		{"an expired reservation is forgotten", func(e *env) {
			e.dies()
			e.wantErased()
		}},
		{"a tombstone counts as erased and stays for its owner's late write", func(e *env) {
			rec := e.acquire(newOwner())
			e.wantRelease(rec, true)
			if !e.erase().Erased {
				e.Error("a tombstone holds no result")
			}
			e.unchanged(func() { e.wantLost(rec) })
		}},
		{"a live reservation stays and is named", func(e *env) {
			live := e.acquire(newOwner())
			e.staysUnerased(live)
			e.wantLeft(e.erase().Left, longLease)
		}},
		{"a dispatched reservation stays and is named, live or expired", func(e *env) {
			live := e.dispatch(newOwner())
			e.staysUnerased(live)
			dead := e.at(newKey())
			dead.staysUnerased(dead.diesDispatched())
		}},
		{"a held record stays and is named", func(e *env) { e.staysUnerased(e.held()) }},
		{"an error is forgotten and the key is free", func(e *env) {
			e.failed()
			e.wantErased()
			e.acquire(newOwner())
		}},
		{"a result is forgotten together with who settled it", func(e *env) {
			held := e.held()
			e.resolve(held, guard.StatusCompleted)
			e.wantErased()
			e.unchanged(func() { e.wantReplace(held, guard.ReplaceStale) })
		}},
		{"the fence goes on growing after an erasure", func(e *env) {
			before := e.completed().Fence
			e.wantErased()
			e.higher(e.acquire(newOwner()).Fence, before)
		}},
		{"a record that cannot be read stays", func(e *env) {
			e.spoiled()
			e.unchanged(func() {
				if e.erase().Erased {
					e.Error("a record that may be a newer version's was erased")
				}
			})
		}},
	}
}

func (e *env) erase() guard.EraseReply {
	e.Helper()
	eraser, ok := e.store.(guard.Eraser)
	if !ok {
		e.Skip("the store cannot erase")
	}
	reply, err := eraser.Erase(e.ctx(), guard.EraseRequest{Key: e.key, Lease: longLease})
	e.check("erase", err)
	return reply
}

// staysUnerased wants the record to be named as what is in the way.
func (e *env) staysUnerased(rec guard.Record) {
	e.Helper()
	e.unchanged(func() {
		reply := e.erase()
		if reply.Erased {
			e.Fatalf("a %s record was erased", rec.Status)
		}
		e.same(reply.Record, rec)
	})
}

func (e *env) wantErased() {
	e.Helper()
	if reply := e.erase(); !reply.Erased {
		e.Fatalf("not erased: a %s record is in the way", reply.Record.Status)
	}
	left := e.load().Record
	if left.Result != nil || left.Owner.Label != "" || left.Owner.TraceParent != "" || left.Fingerprint != (guard.Fingerprint{}) ||
		left.Resolved != nil || left.Dispatch != nil {
		e.Errorf("%+v is still there", left)
	}
}
