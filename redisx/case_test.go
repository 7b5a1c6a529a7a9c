package redisx

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

func TestCase_K6_AServerThatNeverAnswersDelaysByTheDeadlineOnly(t *testing.T) {
	const deadline, limit = 50 * time.Millisecond, 100 * time.Millisecond
	for _, mode := range clientModes() {
		t.Run(mode.name, func(t *testing.T) {
			store := newStore(t, mode.client(t, realtest.Blackhole(t)))
			for _, call := range phaseCalls(store, testKey(t)) {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				start := time.Now()
				err := call.do(ctx)
				took := time.Since(start)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || guard.Classify(err) != guard.ClassTimeout {
					t.Errorf("%s: %v (%s), want a deadline exceeded", call.phase, err, guard.Classify(err))
				}
				if took > limit {
					t.Errorf("%s took %s, want under %s", call.phase, took, limit)
				}
			}
		})
	}
}

func TestCase_K6_ServerFrozenInMidConnection(t *testing.T) {
	srv := realtest.Redis(t)
	for _, mode := range clientModes() {
		t.Run(mode.name, func(t *testing.T) {
			store := newStore(t, mode.client(t, srv.Addr()))
			key := testKey(t)
			mustLoad(t, store, key)
			srv.Pause()
			defer srv.Resume()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := store.Load(ctx, guard.LoadRequest{Key: key})
			if took := time.Since(start); took > 100*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v after %s", err, took)
			}
		})
	}
}

func TestCall_WithoutADeadlineIsBoundedToo(t *testing.T) {
	for _, mode := range clientModes() {
		t.Run(mode.name, func(t *testing.T) {
			store := newStore(t, mode.client(t, realtest.Blackhole(t)))
			if store.timeout != DefaultTimeout {
				t.Errorf("time limit %s, want %s", store.timeout, DefaultTimeout)
			}
			store.timeout = 30 * time.Millisecond
			start := time.Now()
			_, err := store.Load(context.Background(), guard.LoadRequest{Key: testKey(t)})
			if took := time.Since(start); took > time.Second || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v after %s", err, took)
			}
		})
	}
}

func TestCall_LeftBehindUsesNoBytesOfItsCaller(t *testing.T) {
	store := newStore(t, clientModes()[1].client(t, realtest.Blackhole(t)))
	result := bytes.Repeat([]byte("x"), 1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := store.Replace(ctx, guard.ReplaceRequest{
		Key: testKey(t), Result: result, Lease: testLease, Retention: testRetention,
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	clear(result) // the race detector sees a command that still reads it
}

func TestCase_L11_ALostReplyIsNoSecondAcquisition(t *testing.T) {
	srv := realtest.Redis(t)
	direct := newStore(t, srv.Client(t))
	loadScripts(t, direct)
	proxy := realtest.LossyProxy(t, srv.Addr())
	for _, mode := range clientModes() {
		t.Run(mode.name, func(t *testing.T) {
			store := newStore(t, mode.client(t, proxy.Addr()))
			key, owner := testKey(t), guard.Owner{Token: "owner of " + mode.name}
			twice := func(phase guard.Phase, call func()) {
				t.Helper()
				before := evalshaCalls(t, srv)
				dropped := proxy.DropReply("evalsha")
				call()
				<-dropped
				if n := evalshaCalls(t, srv) - before; n != 2 {
					t.Errorf("%s ran %d times on the server, want the lost and the repeated one", phase, n)
				}
			}
			var rec guard.Record
			twice(guard.PhaseReserve, func() { rec = acquire(t, store, key, owner, testLease) })
			stored := mustLoad(t, direct, key).Record
			if rec.Attempt != 1 || rec.TookOver != nil || rec.Fence != stored.Fence || rec.Fence != rec.Created.UnixMicro() {
				t.Errorf("reserve: %+v, stored: %+v", rec, stored)
			}
			twice(guard.PhaseRenew, func() {
				reply, err := store.Renew(t.Context(), guard.RenewRequest{
					Key: key, Record: rec, Lease: testLease, Retention: testRetention,
				})
				if err != nil || reply.Status != guard.RenewOK {
					t.Errorf("renew: %q, %v", reply.Status, err)
				}
			})
			twice(guard.PhaseReplace, func() {
				// The script has run twice, and the reply is the second one's.
				if status := mustReplace(t, store, key, rec, `{}`); status != guard.ReplaceSettled {
					t.Errorf("replace: %q", status)
				}
			})
			if got := mustLoad(t, direct, key).Record; got.Fence != rec.Fence || string(got.Result) != `{}` {
				t.Errorf("the result is %+v", got)
			}
			key.Name += " to release"
			rec = acquire(t, store, key, owner, testLease)
			twice(guard.PhaseRelease, func() {
				reply, err := store.Release(t.Context(), guard.ReleaseRequest{Key: key, Record: rec, Lease: testLease})
				if err != nil || !reply.Released {
					t.Errorf("release: %t, %v", reply.Released, err)
				}
			})
		})
	}
}

// loadScripts makes the server know the scripts, so that a call is one EVALSHA.
func loadScripts(t *testing.T, store *Store) {
	t.Helper()
	for _, call := range phaseCalls(store, testKey(t)) {
		if err := call.do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

var callsPattern = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

func evalshaCalls(t *testing.T, srv *realtest.RedisServer) int {
	t.Helper()
	info, err := srv.Client(t).Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	if match := callsPattern.FindStringSubmatch(info); match != nil {
		calls, _ = strconv.Atoi(match[1])
	}
	return calls
}

func TestCase_K4_AFlushOfTheScriptsLosesNothing(t *testing.T) {
	rdb := realtest.Redis(t).Client(t)
	store, key := newStore(t, rdb), testKey(t)
	rec := acquire(t, store, key, guard.Owner{Token: "a"}, testLease)
	if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if status := mustReplace(t, store, key, rec, `{}`); status != guard.ReplaceStored {
		t.Errorf("replace: %q", status)
	}
}

func TestCase_K9_ARecordOfANewerVersionCountsAsInFlight(t *testing.T) {
	rdb := realtest.SharedRedis(t).Client(t)
	store, key := newStore(t, rdb), testKey(t)
	for _, raw := range []string{
		"onceguard/2 completed\nowner=a\nsomething=else\n\n{}", "onceguard/1 held\nowner=a\n", "onceguard/1 pending\n", "null", "",
	} {
		if err := rdb.Set(t.Context(), storageKey(DefaultPrefix, key), raw, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		reply, err := store.Reserve(t.Context(), guard.ReserveRequest{
			Key: key, Owner: guard.Owner{Token: "b"}, Lease: testLease, Retention: testRetention,
		})
		if err != nil || reply.Acquired || reply.Record.Status != guard.StatusUnknown {
			t.Errorf("%q: %+v, %v", raw, reply, err)
		}
		if reply.Left < 50*time.Second || reply.Left > time.Minute {
			t.Errorf("%q: %s left, want the life of the key", raw, reply.Left)
		}
	}
	if got := mustLoad(t, store, key); !got.Found || got.Record.Status != guard.StatusUnknown {
		t.Errorf("loaded: %+v", got)
	}
}

func TestReserve_AValueOfAnotherTypeCountsAsInFlight(t *testing.T) {
	rdb := realtest.SharedRedis(t).Client(t)
	store, key := newStore(t, rdb), testKey(t)
	name := storageKey(DefaultPrefix, key)
	if err := rdb.HSet(t.Context(), name, "field", "value").Err(); err != nil {
		t.Fatal(err)
	}
	for _, call := range phaseCalls(store, key) {
		if err := call.do(t.Context()); err != nil {
			t.Errorf("%s: %v", call.phase, err)
		}
	}
	if kind, err := rdb.Type(t.Context(), name).Result(); err != nil || kind != "hash" {
		t.Errorf("the key holds a %s (%v), want the hash that was there", kind, err)
	}
	if got := mustLoad(t, store, key); got.Left != 0 || got.Record.Status != guard.StatusUnknown {
		t.Errorf("loaded: %+v", got)
	}
}

func TestStore_AMissCostsTwoRoundTripsAndAHitOne(t *testing.T) {
	srv := realtest.SharedRedis(t)
	for _, mode := range clientModes() {
		t.Run(mode.name, func(t *testing.T) {
			rdb := mode.client(t, srv.Addr())
			store, key := newStore(t, rdb), testKey(t)
			loadScripts(t, store)
			seen := &hook{}
			rdb.AddHook(seen)

			mustReplace(t, store, key, acquire(t, store, key, guard.Owner{Token: "a"}, testLease), `{}`)
			if got := seen.take(); !slices.Equal(got, []string{"evalsha", "evalsha"}) {
				t.Errorf("a miss sent %q", got)
			}
			reply, err := store.Reserve(t.Context(), guard.ReserveRequest{
				Key: key, Owner: guard.Owner{Token: "b"}, Lease: testLease, Retention: testRetention,
			})
			if err != nil || reply.Acquired || string(reply.Record.Result) != `{}` {
				t.Errorf("%+v, %v", reply, err)
			}
			if got := seen.take(); !slices.Equal(got, []string{"evalsha"}) {
				t.Errorf("a hit sent %q", got)
			}
		})
	}
}

// The leases and retentions that a store may be asked for, however odd: each key
// has an expiry, and a call never fails because of one.
func TestCase_K3_NoDurationMakesAKeyWithoutAnExpiry(t *testing.T) {
	rdb := realtest.SharedRedis(t).Client(t)
	store := newStore(t, rdb)
	odd := []time.Duration{-5 * time.Second, -1, 0, 1, time.Microsecond, time.Millisecond + 1, 1 << 62, 1<<63 - 1}
	for _, lease := range odd {
		for _, retention := range odd {
			key := testKey(t)
			reply, err := store.Reserve(t.Context(), guard.ReserveRequest{
				Key: key, Owner: guard.Owner{Token: "a"}, Lease: lease, Retention: retention,
			})
			if err != nil || !reply.Acquired {
				t.Errorf("reserve for %d and %d: %+v, %v", lease, retention, reply, err)
			}
			expires(t, rdb, key)
			_, err = store.Replace(t.Context(), guard.ReplaceRequest{
				Key: key, Record: reply.Record, Lease: lease, Retention: retention,
			})
			if err != nil {
				t.Errorf("replace for %d and %d: %v", lease, retention, err)
			}
			expires(t, rdb, key)
		}
	}
}

func expires(t *testing.T, rdb *redis.Client, key guard.Key) {
	t.Helper()
	ttl, err := rdb.PTTL(t.Context(), storageKey(DefaultPrefix, key)).Result()
	if err != nil || ttl == -1 {
		t.Errorf("%q expires in %s, %v", key.Name, ttl, err)
	}
}
