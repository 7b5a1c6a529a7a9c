package redisx

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

const testHoldRetention = 30 * 24 * time.Hour

func mustReserve(t *testing.T, s *Store, req guard.ReserveRequest) guard.ReserveReply {
	t.Helper()
	reply, err := s.Reserve(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// dispatched is a reserve of an operation that runs at most once.
func dispatched(key guard.Key, owner string, lease time.Duration) guard.ReserveRequest {
	return guard.ReserveRequest{
		Key: key, Owner: guard.Owner{Token: owner, Label: "label of " + owner}, Lease: lease, Retention: testRetention,
		Dispatched: true, HoldRetention: testHoldRetention,
	}
}

// recovering is a reserve of an operation that can find out.
func recovering(key guard.Key, owner string) guard.ReserveRequest {
	req := dispatched(key, owner, testLease)
	req.Recovers = true
	return req
}

// dead leaves a dispatched reservation of the owner a, whose lease has run out.
func dead(t *testing.T, s *Store, key guard.Key) guard.Record {
	t.Helper()
	rec := mustReserve(t, s, dispatched(key, "a", time.Millisecond)).Record
	for mustLoad(t, s, key).Left > 0 {
		time.Sleep(time.Millisecond)
	}
	return rec
}

func mustHold(t *testing.T, s *Store, key guard.Key, rec guard.Record, want guard.HoldStatus) {
	t.Helper()
	reply, err := s.Hold(t.Context(), guard.HoldRequest{Key: key, Record: rec, Lease: testLease, Retention: testHoldRetention})
	if err != nil || reply.Status != want {
		t.Fatalf("hold: %q, %v; want %q", reply.Status, err, want)
	}
}

func mustResolve(t *testing.T, s *Store, req guard.ResolveRequest) guard.ResolveReply {
	t.Helper()
	reply, err := s.Resolve(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// livesFor wants the server to keep the key for so long, within the time of a test.
func livesFor(t *testing.T, rdb *redis.Client, key guard.Key, want time.Duration) {
	t.Helper()
	ttl, err := rdb.PTTL(t.Context(), storageKey(DefaultPrefix, key)).Result()
	if err != nil || ttl > want || ttl < want-time.Minute/2 {
		t.Errorf("%q lives for %s (%v), want %s", key.Name, ttl, err, want)
	}
}

func TestHold_WhatMayHaveHappenedIsKeptForTheHoldsRetention(t *testing.T) {
	rdb := realtest.SharedRedis(t).Client(t)
	store, key := newStore(t, rdb), testKey(t)

	marked := acquire(t, store, key, guard.Owner{Token: "a"}, testLease)
	livesFor(t, rdb, key, guard.PendingLifetime(testLease, testRetention))
	renew := guard.RenewRequest{
		Key: key, Record: marked, Lease: testLease, Retention: testRetention, HoldRetention: testHoldRetention,
	}
	for _, renew.Dispatched = range []bool{false, true, false} {
		if _, err := store.Renew(t.Context(), renew); err != nil {
			t.Fatal(err)
		}
		want := guard.PendingLifetime(testLease, testRetention)
		if mustLoad(t, store, key).Record.Dispatch != nil {
			want = testLease + testHoldRetention
		}
		livesFor(t, rdb, key, want)
	}

	key = testKey(t)
	dead(t, store, key)
	livesFor(t, rdb, key, testHoldRetention)
	found := mustReserve(t, store, dispatched(key, "b", testLease))
	if !found.Held || found.Record.Status != guard.StatusHeld || found.Left < testHoldRetention-time.Minute/2 {
		t.Fatalf("found: %+v", found)
	}
	livesFor(t, rdb, key, testHoldRetention)

	next := mustReserve(t, store, recovering(key, "c")).Record
	livesFor(t, rdb, key, testLease+testHoldRetention)
	released, err := store.Release(t.Context(), guard.ReleaseRequest{Key: key, Record: next, Lease: testLease})
	if err != nil || !released.Held {
		t.Fatalf("released: %+v, %v", released, err)
	}
	livesFor(t, rdb, key, testLease+testHoldRetention)

	again := mustReserve(t, store, recovering(key, "d")).Record
	mustHold(t, store, key, again, guard.HoldHeld)
	livesFor(t, rdb, key, testHoldRetention)
	if got := mustLoad(t, store, key); got.Record.Owner.Token != "a" || got.Record.Owner.Label != "label of a" {
		t.Errorf("held by %+v, want who has dispatched it", got.Record.Owner)
	}
}

// TestHold_AKeyWithoutAnExpiryIsHeldForGood: somebody may have taken the expiry off, to
// keep the evidence.
func TestHold_AKeyWithoutAnExpiryIsHeldForGood(t *testing.T) {
	rdb := realtest.Redis(t).Client(t)
	store, key := newStore(t, rdb), testKey(t)
	dead(t, store, key)
	if err := rdb.Persist(t.Context(), storageKey(DefaultPrefix, key)).Err(); err != nil {
		t.Fatal(err)
	}
	found := mustReserve(t, store, dispatched(key, "b", testLease))
	if !found.Held || found.Record.Status != guard.StatusHeld || found.Left < 100*365*24*time.Hour {
		t.Errorf("found: %+v", found)
	}
	if got := mustLoad(t, store, key); got.Record.Status != guard.StatusHeld || got.Left < 100*365*24*time.Hour {
		t.Errorf("loaded: %+v", got)
	}
}

func TestHold_LostRepliesChangeNothing(t *testing.T) {
	srv := realtest.Redis(t)
	direct := newStore(t, srv.Client(t))
	loadScripts(t, direct)
	proxy := realtest.LossyProxy(t, srv.Addr())
	store := newStore(t, clientModes()[0].client(t, proxy.Addr()))
	twice := func(t *testing.T, call func()) {
		t.Helper()
		before := evalshaCalls(t, srv)
		dropped := proxy.DropReply("evalsha")
		call()
		<-dropped
		if n := evalshaCalls(t, srv) - before; n != 2 {
			t.Errorf("ran %d times on the server, want the lost and the repeated one", n)
		}
	}
	t.Run("a takeover with evidence", func(t *testing.T) {
		key := testKey(t)
		first := dead(t, direct, key)
		var got guard.ReserveReply
		twice(t, func() { got = mustReserve(t, store, recovering(key, "b")) })
		stored := mustLoad(t, direct, key).Record
		rec := got.Record
		if !got.Acquired || rec.Attempt != 2 || rec.TookOver == nil || rec.TookOver.Owner.Token != "a" || rec.Fence != stored.Fence {
			t.Errorf("reserve: %+v, stored: %+v", got, stored)
		}
		for _, dispatch := range []*guard.Dispatch{rec.Dispatch, stored.Dispatch} {
			if dispatch == nil || dispatch.Owner != first.Owner || dispatch.Fence != first.Fence || !dispatch.At.Equal(first.Dispatch.At) {
				t.Errorf("evidence %+v, want %+v", dispatch, first.Dispatch)
			}
		}
	})
	t.Run("what makes a record held", func(t *testing.T) {
		key := testKey(t)
		first := dead(t, direct, key)
		var got guard.ReserveReply
		twice(t, func() { got = mustReserve(t, store, dispatched(key, "b", testLease)) })
		if got.Acquired || got.Record.Status != guard.StatusHeld || !got.Record.Updated.Equal(first.Updated) {
			t.Errorf("reserve: %+v", got)
		}
	})
	t.Run("a mark", func(t *testing.T) {
		key := testKey(t)
		rec := acquire(t, direct, key, guard.Owner{Token: "a"}, testLease)
		twice(t, func() {
			reply, err := store.Renew(t.Context(), guard.RenewRequest{
				Key: key, Record: rec, Lease: testLease, Retention: testRetention, Dispatched: true,
			})
			if err != nil || reply.Status != guard.RenewOK {
				t.Errorf("renew: %q, %v", reply.Status, err)
			}
		})
		got := mustLoad(t, direct, key).Record
		if got.Dispatch == nil || got.Dispatch.Owner.Token != "a" || !got.Dispatch.At.Before(got.Updated) {
			t.Errorf("marked %+v, last written %s; want the mark of the first time", got.Dispatch, got.Updated)
		}
	})
	t.Run("a hold", func(t *testing.T) {
		key := testKey(t)
		rec := mustReserve(t, direct, dispatched(key, "a", testLease)).Record
		twice(t, func() { mustHold(t, store, key, rec, guard.HoldAgain) })
		if got := mustLoad(t, direct, key).Record; got.Status != guard.StatusHeld || got.Fence != rec.Fence {
			t.Errorf("held: %+v", got)
		}
	})
	for what, giveBack := range map[string]func(t *testing.T, key guard.Key, rec guard.Record){
		"held": func(t *testing.T, key guard.Key, rec guard.Record) {
			t.Helper()
			mustHold(t, store, key, rec, guard.HoldAgain)
		},
		"released": func(t *testing.T, key guard.Key, rec guard.Record) {
			t.Helper() // the second time it is another's already: the reply says so
			if _, err := store.Release(t.Context(), guard.ReleaseRequest{Key: key, Record: rec, Lease: testLease}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run("what goes back to its dispatcher when it is "+what, func(t *testing.T) {
			key := testKey(t)
			first := dead(t, direct, key)
			rec := mustReserve(t, direct, recovering(key, "b")).Record
			twice(t, func() { giveBack(t, key, rec) })
			got := mustLoad(t, direct, key).Record
			if got.Status != guard.StatusHeld || got.Owner != first.Owner || got.Fence != rec.Fence {
				t.Errorf("held: %+v", got)
			}
		})
	}
	t.Run("a resolution", func(t *testing.T) {
		key := testKey(t)
		rec := dead(t, direct, key)
		var got guard.ResolveReply
		twice(t, func() {
			got = mustResolve(t, store, guard.ResolveRequest{
				Key: key, Fence: rec.Fence, Resolver: guard.Owner{Token: "r"}, As: guard.StatusCompleted,
				Encoding: "json", Result: []byte(`{}`), Lease: testLease, Retention: testRetention,
			})
		})
		stored := mustLoad(t, direct, key).Record
		if !got.Resolved || string(got.Record.Result) != `{}` || got.Record.Fence <= rec.Fence || got.Record.Fence != stored.Fence {
			t.Errorf("resolved: %+v, stored: %+v", got, stored)
		}
	})
}

func TestResolve_OfManyExactlyOneWins(t *testing.T) {
	store := newStore(t, realtest.SharedRedis(t).Client(t))
	for round := range 20 {
		key := testKey(t)
		rec := dead(t, store, key)
		var wg sync.WaitGroup
		var won atomic.Int64
		winners := make(chan string, 32)
		for i := range 32 {
			wg.Go(func() {
				token := fmt.Sprint("resolver ", i)
				reply := mustResolve(t, store, guard.ResolveRequest{
					Key: key, Fence: rec.Fence, Resolver: guard.Owner{Token: token}, Lease: testLease, Retention: testRetention,
					As: []guard.Status{guard.StatusCompleted, guard.StatusFailed, guard.StatusReleased}[i%3], Result: []byte(token),
				})
				if reply.Resolved {
					won.Add(1)
				}
				winners <- reply.Record.Resolved.Token
			})
		}
		wg.Wait()
		close(winners)
		first := <-winners
		for winner := range winners {
			if winner != first {
				t.Errorf("round %d: settled by %q and by %q", round, first, winner)
			}
		}
		if n := won.Load(); n != 1 {
			t.Errorf("round %d: %d won", round, n)
		}
	}
}

// TestResolve_AnOwnerAtWorkLosesOrSettlesItself: whatever comes first, the record is
// settled once and nothing revives it.
func TestResolve_AnOwnerAtWorkLosesOrSettlesItself(t *testing.T) {
	store := newStore(t, realtest.SharedRedis(t).Client(t))
	for round := range 60 {
		key := testKey(t)
		rec := mustReserve(t, store, dispatched(key, "a", testLease)).Record
		var wg sync.WaitGroup
		var stored guard.ReplaceStatus
		var resolved guard.ResolveReply
		wg.Go(func() {
			for range 5 {
				_, err := store.Renew(t.Context(), guard.RenewRequest{
					Key: key, Record: rec, Lease: testLease, Retention: testRetention, HoldRetention: testHoldRetention,
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() { stored = mustReplace(t, store, key, rec, "own") })
		wg.Go(func() {
			resolved = mustResolve(t, store, guard.ResolveRequest{
				Key: key, Fence: rec.Fence, Resolver: guard.Owner{Token: "r"}, Live: true, Lease: testLease, Retention: testRetention,
				As: []guard.Status{guard.StatusFailed, guard.StatusReleased}[round%2],
			})
		})
		wg.Wait()
		got := mustLoad(t, store, key).Record
		if (stored == guard.ReplaceStored) == resolved.Resolved {
			t.Errorf("the result was %s, and resolved %t", stored, resolved.Resolved)
		}
		if want := resolved.Record.Status; resolved.Resolved && (got.Status != want || len(got.Result) > 0) {
			t.Errorf("resolved as %s, then %s with %q", want, got.Status, got.Result)
		}
		if !resolved.Resolved && string(got.Result) != "own" {
			t.Errorf("stored, then %s with %q", got.Status, got.Result)
		}
		reply, err := store.Renew(t.Context(), guard.RenewRequest{Key: key, Record: rec, Lease: testLease, Retention: testRetention})
		if err != nil || reply.Status != guard.RenewLost {
			t.Errorf("a late renewal is %q, %v", reply.Status, err)
		}
	}
}

func TestResolve_SettlesAsNothingElse(t *testing.T) {
	store := newStore(t, realtest.SharedRedis(t).Client(t))
	for _, as := range []guard.Status{"", guard.StatusPending, guard.StatusHeld, guard.StatusUnknown, "x\nowner=y"} {
		_, err := store.Resolve(t.Context(), guard.ResolveRequest{Key: testKey(t), As: as})
		if err == nil || !strings.Contains(err.Error(), "not as") {
			t.Errorf("%q: %v", as, err)
		}
	}
}
