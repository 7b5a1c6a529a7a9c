package storetest

import (
	"sync/atomic"

	"github.com/onceguard/onceguard/guard"
)

// resolveClauses hold for a store that is a [guard.Resolver].
func resolveClauses() []clause {
	return []clause{
		{"a held record is settled", func(e *env) {
			e.eachSettlement(func(at *env, as guard.Status) { at.isSettled(at.held(), as) })
		}},
		{"an expired reservation is settled", func(e *env) {
			e.isSettled(e.dies(), guard.StatusCompleted)
			other := e.at(newKey())
			other.isSettled(other.dies(), guard.StatusReleased)
		}},
		{"an expired dispatched reservation is settled", func(e *env) {
			e.isSettled(e.diesDispatched(), guard.StatusCompleted)
			other := e.at(newKey())
			other.isSettled(other.diesDispatched(), guard.StatusReleased)
		}},
		{"a reservation with the evidence of an earlier owner is settled", func(e *env) {
			e.eachSettlement(func(at *env, as guard.Status) {
				held := at.held()
				at.isSettled(at.recover(), as)
				if as != guard.StatusReleased {
					at.unchanged(func() { at.wantReplace(held, guard.ReplaceStale) })
				}
			})
		}},
		{"a live reservation stays and is named", func(e *env) {
			live := e.acquire(newOwner())
			e.unchanged(func() {
				e.eachStatus(func(as guard.Status) {
					reply := e.resolve(live, as)
					e.wantUnresolved(reply, live)
					e.wantLeft(reply.Left, longLease)
				})
			})
		}},
		{"a live reservation is settled when that is asked for", func(e *env) {
			e.eachSettlement(func(at *env, as guard.Status) {
				live := at.dispatch(newOwner())
				req := settlement(live, as)
				req.Live = true
				at.wantResolved(at.resolveBy(req), live, req)
			})
		}},
		{"another fence than the record's changes nothing", func(e *env) {
			held := e.held()
			e.unchanged(func() {
				for _, off := range []int64{-1, 1} {
					stale := held
					stale.Fence += off
					e.eachStatus(func(as guard.Status) { e.wantUnresolved(e.resolve(stale, as), held) })
				}
			})
		}},
		{"the fence of a record that was taken over since changes nothing", func(e *env) {
			held := e.held()
			live := e.recover()
			req := settlement(held, guard.StatusReleased)
			req.Live = true
			e.unchanged(func() { e.wantUnresolved(e.resolveBy(req), live) })
		}},
		{"a result, an error and a tombstone stay", func(e *env) {
			for _, settled := range []func(*env) guard.Record{(*env).completed, (*env).failed, (*env).tombstone} {
				at := e.at(newKey())
				rec := settled(at)
				at.unchanged(func() {
					at.eachStatus(func(as guard.Status) {
						req := settlement(rec, as)
						req.Live = true
						at.wantUnresolved(at.resolveBy(req), rec)
					})
				})
			}
		}},
		{"a key without a record has none to settle", func(e *env) {
			e.unchanged(func() {
				e.eachStatus(func(as guard.Status) {
					if reply := e.resolve(guard.Record{}, as); reply.Resolved || reply.Found {
						e.Errorf("resolved: %t, found: %t", reply.Resolved, reply.Found)
					}
				})
			})
		}},
		{"of two who settle it one wins", func(e *env) {
			held := e.held()
			req := settlement(held, guard.StatusCompleted)
			e.wantResolved(e.resolveBy(req), held, req)
			settled := e.stored()
			e.unchanged(func() {
				e.wantUnresolved(e.resolve(held, guard.StatusReleased), settled)
				e.wantUnresolved(e.resolve(settled, guard.StatusReleased), settled)
			})
		}},
		{"of many who settle it at once one wins", func(e *env) {
			held := e.held()
			var won atomic.Int32
			e.together(crowd, func(i int) {
				if e.resolve(held, settlements()[i%len(settlements())]).Resolved {
					won.Add(1)
				}
			})
			if won.Load() != 1 {
				e.Errorf("%d of %d settled it", won.Load(), crowd)
			}
		}},
		{"a repeat with the same token is the same resolution", func(e *env) {
			e.eachSettlement(func(at *env, as guard.Status) {
				held := at.held()
				req := settlement(held, as)
				at.wantResolved(at.resolveBy(req), held, req)
				at.unchanged(func() { at.wantResolved(at.resolveBy(req), held, req) })
			})
		}},
		{"a repeat after another has acquired the key changes nothing", func(e *env) {
			req := settlement(e.held(), guard.StatusReleased)
			e.resolveBy(req)
			live := e.acquire(newOwner())
			req.Live = true
			e.unchanged(func() { e.wantUnresolved(e.resolveBy(req), live) })
		}},
	}
}

// resolvedClauses are about records that somebody has settled in their owner's stead.
func resolvedClauses() []clause {
	return []clause{
		{"its owner, that still lives, revives nothing", func(e *env) {
			e.eachSettlement(func(at *env, as guard.Status) {
				live := at.dispatch(newOwner())
				req := settlement(live, as)
				req.Live = true
				at.resolveBy(req)
				at.revivesNothing(live)
			})
		}},
		{"the owner of a held record revives nothing", func(e *env) {
			e.eachSettlement(func(at *env, as guard.Status) {
				held := at.held()
				at.resolve(held, as)
				at.revivesNothing(held)
			})
		}},
		{"as released the key is free to others at once, with a higher fence", func(e *env) {
			held := e.held()
			tombstone := e.resolve(held, guard.StatusReleased).Record
			next := e.acquired(e.ask(guard.ReserveRequest{Owner: newOwner(), Fingerprint: otherInput()}))
			e.higher(next.Fence, tombstone.Fence)
			e.samePrevious(next.TookOver, nil)
			e.sameDispatch(next.Dispatch, nil)
			if next.Resolved != nil || next.Fingerprint != otherInput() {
				e.Errorf("resolved by %+v, fingerprint %+v", next.Resolved, next.Fingerprint)
			}
			e.unchanged(func() { e.wantReplace(held, guard.ReplaceStale) })
		}},
		{"as released it gets no result of an owner from before", func(e *env) {
			dead := e.dies()
			held := e.held()
			rec := e.recover()
			e.resolveBy(guard.ResolveRequest{Fence: rec.Fence, Resolver: newOwner(), As: guard.StatusReleased, Live: true, Lease: longLease})
			for _, late := range []guard.Record{dead, held, rec} {
				e.unchanged(func() { e.wantReplace(late, guard.ReplaceStale) })
			}
		}},
		{"a repeat that settles it as something else is refused", func(e *env) {
			req := settlement(e.held(), guard.StatusReleased)
			e.resolveBy(req)
			e.unchanged(func() {
				req.As, req.Encoding, req.Result = guard.StatusCompleted, encoding, []byte(receipt)
				if e.resolveBy(req).Resolved {
					e.Error("resolved, though nothing was stored")
				}
			})
		}},
		{"as released it is held by nobody", func(e *env) {
			dead := e.dies()
			held := e.held()
			rec := e.recover()
			e.resolveBy(guard.ResolveRequest{Key: e.key, Fence: rec.Fence, Resolver: newOwner(), As: guard.StatusReleased, Live: true, Lease: longLease})
			for _, late := range []guard.Record{dead, held, rec} {
				e.keeps(late)
			}
		}},
		{"as completed or failed it keeps others out and is the reply", func(e *env) {
			for _, as := range []guard.Status{guard.StatusCompleted, guard.StatusFailed} {
				at := e.at(newKey())
				settled := at.resolve(at.held(), as).Record
				at.unchanged(func() {
					reply := at.reserve(newOwner())
					at.same(at.refused(reply), settled)
					at.wantLeft(reply.Left, retention)
				})
			}
		}},
		{"as completed it makes the results of others stale", func(e *env) {
			dead := e.dies()
			e.resolve(e.held(), guard.StatusCompleted)
			e.unchanged(func() { e.wantReplace(dead, guard.ReplaceStale) })
		}},
		{"a result that cannot be decoded is acquired, and forgets who settled it", func(e *env) {
			settled := e.resolve(e.held(), guard.StatusCompleted).Record
			rec := e.acquired(e.heal(seen(settled)))
			e.higher(rec.Fence, settled.Fence)
			if rec.Resolved != nil || e.stored().Resolved != nil {
				e.Errorf("resolved by %+v", rec.Resolved)
			}
		}},
		{"results and errors come back byte for byte", func(e *env) {
			for _, text := range lookalikes() {
				for _, as := range []guard.Status{guard.StatusCompleted, guard.StatusFailed} {
					at := e.at(newKey())
					req := settlement(at.held(), as)
					req.Result, req.Encoding = []byte(text), text
					for _, got := range []guard.Record{at.resolveBy(req).Record, at.stored()} {
						if string(got.Result) != text || got.Encoding != text {
							e.Errorf("%s: %q (%q), want %q", as, got.Result, got.Encoding, text)
						}
					}
				}
			}
		}},
		{"the label of who settled it comes back", func(e *env) {
			for _, text := range lookalikes() {
				at := e.at(newKey())
				held := at.held()
				req := settlement(held, guard.StatusReleased)
				req.Resolver.Label = text
				at.wantResolved(at.resolveBy(req), held, req)
			}
		}},
		{"a result and a settlement of its reservation never both succeed", func(e *env) {
			e.resolver()
			for range rounds {
				at := e.at(newKey())
				live := at.acquire(newOwner())
				req := settlement(live, guard.StatusFailed)
				req.Live = true
				var stored, resolved bool
				at.together(2, func(i int) {
					if i == 0 {
						stored = at.replace(live) == guard.ReplaceStored
					} else {
						resolved = at.resolveBy(req).Resolved
					}
				})
				if stored == resolved {
					e.Fatalf("result stored: %t, settled: %t", stored, resolved)
				}
			}
		}},
	}
}

func settlements() []guard.Status {
	return []guard.Status{guard.StatusCompleted, guard.StatusFailed, guard.StatusReleased}
}

// eachStatus calls do with every status that a record can be settled as.
func (e *env) eachStatus(do func(as guard.Status)) {
	e.Helper()
	for _, as := range settlements() {
		do(as)
	}
}

// eachSettlement is eachStatus with a key of its own each.
func (e *env) eachSettlement(do func(at *env, as guard.Status)) {
	e.Helper()
	e.eachStatus(func(as guard.Status) { do(e.at(newKey()), as) })
}

func (e *env) resolver() guard.Resolver {
	e.Helper()
	resolver, ok := e.store.(guard.Resolver)
	if !ok {
		e.Skip("nobody can settle the store's records in their owner's stead")
	}
	return resolver
}

// settlement settles the record as its reader saw it, by somebody new.
func settlement(rec guard.Record, as guard.Status) guard.ResolveRequest {
	req := guard.ResolveRequest{Fence: rec.Fence, Resolver: newOwner(), As: as, Lease: longLease, Retention: retention}
	req.Resolver.Label = "operator@host-2"
	switch as { //nolint:exhaustive // a tombstone has no result, and nothing else is settled
	case guard.StatusCompleted:
		req.Encoding, req.Result = encoding, []byte(receipt)
	case guard.StatusFailed:
		req.Encoding, req.Result = encoding, []byte(refusal)
	}
	return req
}

func (e *env) resolveBy(req guard.ResolveRequest) guard.ResolveReply {
	e.Helper()
	req.Key = e.key
	reply, err := e.resolver().Resolve(e.ctx(), req)
	e.check("resolve", err)
	return reply
}

func (e *env) resolve(rec guard.Record, as guard.Status) guard.ResolveReply {
	e.Helper()
	return e.resolveBy(settlement(rec, as))
}

// isSettled settles the record under the key.
func (e *env) isSettled(rec guard.Record, as guard.Status) {
	e.Helper()
	req := settlement(rec, as)
	req.Live = rec.Status == guard.StatusPending
	e.wantResolved(e.resolveBy(req), rec, req)
}

func (e *env) wantResolved(reply guard.ResolveReply, rec guard.Record, req guard.ResolveRequest) {
	e.Helper()
	if !reply.Resolved || !reply.Found {
		e.Fatalf("resolved: %t, found: %t", reply.Resolved, reply.Found)
	}
	got := reply.Record
	e.wantState(got, req.As, rec.Owner)
	e.higher(got.Fence, rec.Fence)
	e.sameDispatch(got.Dispatch, nil)
	if got.Version != guard.SchemaVersion || got.Encoding != req.Encoding || string(got.Result) != string(req.Result) {
		e.Errorf("version %d, result %.40q (%s), want %.40q (%s)", got.Version, got.Result, got.Encoding, req.Result, req.Encoding)
	}
	if by := got.Resolved; by == nil || by.Token != req.Resolver.Token || by.Label != req.Resolver.Label {
		e.Errorf("resolved by %+v, want %+v", by, req.Resolver)
	}
	left := retention
	if req.As == guard.StatusReleased {
		left = longLease
	}
	e.wantLeft(reply.Left, left)
	e.same(e.stored(), got)
}

// wantUnresolved wants a refusal that names what is there.
func (e *env) wantUnresolved(reply guard.ResolveReply, there guard.Record) {
	e.Helper()
	if reply.Resolved || !reply.Found {
		e.Fatalf("resolved: %t, found: %t, want a refusal that names the record", reply.Resolved, reply.Found)
	}
	e.same(reply.Record, there)
}

// revivesNothing is all that an owner may still do when its record has been settled.
func (e *env) revivesNothing(rec guard.Record) {
	e.Helper()
	e.unchanged(func() {
		e.wantLost(rec)
		e.mark(rec, guard.RenewLost)
		e.wantReplace(rec, guard.ReplaceStale)
		e.wantFail(rec, guard.ReplaceStale)
		e.wantHold(rec, guard.HoldRefused)
		e.release(rec) // it may say that the key is released, which it is if it was settled so
		e.refused(e.reserve(rec.Owner))
	})
}

// tombstone is a record that its owner has released.
func (e *env) tombstone() guard.Record {
	e.Helper()
	e.wantRelease(e.acquire(newOwner()), true)
	return e.stored()
}
