package storetest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// env is a store and a key of its own for one clause. Its methods fail the test
// when the store does.
type env struct {
	*testing.T
	harness Harness
	store   guard.Store
	key     guard.Key
}

func newEnv(t *testing.T, h Harness) *env {
	t.Helper()
	return &env{T: t, harness: h, store: h.New(t), key: newKey()}
}

func (e *env) ctx() context.Context { return e.Context() }

// at is the same store with another key.
func (e *env) at(key guard.Key) *env {
	other := *e
	other.key = key
	return &other
}

func (e *env) check(what string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

func (e *env) reserveFor(owner guard.Owner, lease time.Duration) guard.ReserveReply {
	e.Helper()
	reply, err := e.store.Reserve(e.ctx(), guard.ReserveRequest{
		Key: e.key, Owner: owner, Fingerprint: input(), Lease: lease, Retention: retention,
	})
	e.check("reserve", err)
	return reply
}

func (e *env) reserve(owner guard.Owner) guard.ReserveReply {
	e.Helper()
	return e.reserveFor(owner, longLease)
}

// acquire reserves and fails the test if somebody is in the way.
func (e *env) acquire(owner guard.Owner) guard.Record {
	e.Helper()
	return e.acquired(e.reserve(owner))
}

// dies is an owner that acquires the key and lets its lease run out.
func (e *env) dies() guard.Record {
	e.Helper()
	return e.diesAs(newOwner(), e.harness.ShortLease)
}

func (e *env) diesAs(owner guard.Owner, lease time.Duration) guard.Record {
	e.Helper()
	rec := e.acquired(e.reserveFor(owner, lease))
	e.waitOver()
	return rec
}

func (e *env) acquired(reply guard.ReserveReply) guard.Record {
	e.Helper()
	if !reply.Acquired {
		e.Fatalf("not acquired: a %s record of %q is in the way", reply.Record.Status, reply.Record.Owner.Token)
	}
	return reply.Record
}

// refused fails the test if the reserve acquired, and returns what is in the way.
func (e *env) refused(reply guard.ReserveReply) guard.Record {
	e.Helper()
	if reply.Acquired {
		e.Fatalf("acquired with fence %d, though the key was not free", reply.Record.Fence)
	}
	return reply.Record
}

func (e *env) renew(rec guard.Record) guard.RenewReply {
	e.Helper()
	reply, err := e.store.Renew(e.ctx(), guard.RenewRequest{
		Key: e.key, Record: rec, Lease: longLease, Retention: retention,
	})
	e.check("renew", err)
	return reply
}

func (e *env) wantRenew(rec guard.Record, want guard.RenewStatus) guard.RenewReply {
	e.Helper()
	reply := e.renew(rec)
	if reply.Status != want {
		e.Fatalf("renew: %q, want %q", reply.Status, want)
	}
	return reply
}

const (
	encoding = "json"
	receipt  = `{"charge":"ch_1"}`
)

func (e *env) replaceWith(rec guard.Record, result string, retention time.Duration) guard.ReplaceStatus {
	e.Helper()
	reply, err := e.store.Replace(e.ctx(), guard.ReplaceRequest{
		Key: e.key, Record: rec, Encoding: encoding, Result: []byte(result),
		Lease: e.harness.ShortLease, Retention: retention,
	})
	e.check("replace", err)
	return reply.Status
}

func (e *env) replace(rec guard.Record) guard.ReplaceStatus {
	e.Helper()
	return e.replaceWith(rec, receipt, retention)
}

func (e *env) wantReplace(rec guard.Record, want guard.ReplaceStatus) {
	e.Helper()
	if got := e.replace(rec); got != want {
		e.Fatalf("replace: %q, want %q", got, want)
	}
}

func (e *env) releaseFor(rec guard.Record, lease time.Duration) bool {
	e.Helper()
	reply, err := e.store.Release(e.ctx(), guard.ReleaseRequest{Key: e.key, Record: rec, Lease: lease})
	e.check("release", err)
	return reply.Released
}

func (e *env) release(rec guard.Record) bool {
	e.Helper()
	return e.releaseFor(rec, longLease)
}

func (e *env) wantRelease(rec guard.Record, want bool) {
	e.Helper()
	if got := e.release(rec); got != want {
		e.Fatalf("released: %t, want %t", got, want)
	}
}

func (e *env) load() guard.LoadReply {
	e.Helper()
	reply, err := e.store.Load(e.ctx(), guard.LoadRequest{Key: e.key})
	e.check("load", err)
	return reply
}

// stored is the record under the key, which must be there.
func (e *env) stored() guard.Record {
	e.Helper()
	reply := e.load()
	if !reply.Found {
		e.Fatal("the store has no record")
	}
	return reply.Record
}

// unchanged fails the test if do changes the record.
func (e *env) unchanged(do func()) {
	e.Helper()
	before := e.load()
	do()
	after := e.load()
	if before.Found != after.Found {
		e.Fatalf("a record was there: %t, is there: %t", before.Found, after.Found)
	}
	e.same(after.Record, before.Record)
}

// waitOver waits until the store says that the time of the record has run out.
func (e *env) waitOver() {
	e.Helper()
	e.until("the record runs out", func() bool {
		reply := e.load()
		if reply.Left > patience {
			e.Fatalf("the %s record has %s left: too long to wait for", reply.Record.Status, reply.Left)
		}
		return !reply.Found || reply.Left == 0
	})
}

func (e *env) until(what string, done func() bool) {
	e.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.Fatalf("waited %s in vain until %s", patience, what)
		}
	}
}

// lost is a reservation with this lease whose record the store has lost. The
// clause goes on with the key of the lost record.
func (e *env) lost(lease time.Duration) guard.Record {
	e.Helper()
	rec := e.acquired(e.reserveFor(newOwner(), lease))
	e.lose()
	return rec
}

// lose is what becomes of the record that was just written, see lost.
func (e *env) lose() {
	e.Helper()
	if e.harness.Lose != nil {
		e.harness.Lose(e.T, e.store, e.key)
	} else {
		e.key = newKey()
	}
	if e.load().Found {
		e.Fatal("the harness did not lose the record")
	}
}

// same compares everything in two records.
func (e *env) same(got, want guard.Record) {
	e.Helper()
	e.sameAcquisition(got, want)
	if got.Version != want.Version || got.Status != want.Status || got.Encoding != want.Encoding {
		e.Errorf("version, status, encoding: %d %q %q, want %d %q %q",
			got.Version, got.Status, got.Encoding, want.Version, want.Status, want.Encoding)
	}
	if !got.Until.Equal(want.Until) || !got.Updated.Equal(want.Updated) {
		e.Errorf("until, updated: %s %s, want %s %s", got.Until, got.Updated, want.Until, want.Updated)
	}
	if !bytes.Equal(got.Result, want.Result) {
		e.Errorf("result of %d bytes differs from the wanted %d bytes", len(got.Result), len(want.Result))
	}
	e.samePrevious(got.TookOver, want.TookOver)
	e.sameDispatch(got.Dispatch, want.Dispatch)
	if (got.Kept == nil) != (want.Kept == nil) || (got.Kept != nil && *got.Kept != *want.Kept) {
		e.Errorf("kept by %+v, want %+v", got.Kept, want.Kept)
	}
	if (got.Resolved == nil) != (want.Resolved == nil) || (got.Resolved != nil && *got.Resolved != *want.Resolved) {
		e.Errorf("resolved by %+v, want %+v", got.Resolved, want.Resolved)
	}
}

// sameAcquisition compares what stays through the life of an acquisition.
func (e *env) sameAcquisition(got, want guard.Record) {
	e.Helper()
	if got.Owner != want.Owner {
		e.Errorf("owner: %+v, want %+v", got.Owner, want.Owner)
	}
	if got.Fence != want.Fence || got.Attempt != want.Attempt {
		e.Errorf("fence, attempt: %d %d, want %d %d", got.Fence, got.Attempt, want.Fence, want.Attempt)
	}
	if !got.Created.Equal(want.Created) {
		e.Errorf("created: %s, want %s", got.Created, want.Created)
	}
	if got.Fingerprint != want.Fingerprint {
		e.Errorf("fingerprint: %+v, want %+v", got.Fingerprint, want.Fingerprint)
	}
}

func (e *env) samePrevious(got, want *guard.Previous) {
	e.Helper()
	if (got == nil) != (want == nil) || (got != nil && *got != *want) {
		e.Errorf("took over: %+v, want %+v", got, want)
	}
}

// wantState compares the parts of a record that a status is made of.
func (e *env) wantState(rec guard.Record, status guard.Status, owner guard.Owner) {
	e.Helper()
	if rec.Status != status || rec.Owner.Token != owner.Token {
		e.Fatalf("record: %s of %q, want %s of %q", rec.Status, rec.Owner.Token, status, owner.Token)
	}
}

// wantResult compares the record with the receipt as the result of this owner.
func (e *env) wantResult(rec guard.Record, owner guard.Owner) {
	e.Helper()
	e.wantState(rec, guard.StatusCompleted, owner)
	if string(rec.Result) != receipt || rec.Encoding != encoding {
		e.Errorf("result: %.40q (%s), want %q (%s)", rec.Result, rec.Encoding, receipt, encoding)
	}
}
