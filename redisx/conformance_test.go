package redisx

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/guard/storetest"
	"github.com/onceguard/onceguard/internal/realtest"
)

// TestStore_KeepsTheContract runs the suite on a real server, with a client that
// keeps to the context's deadline and with one that does not.
func TestStore_KeepsTheContract(t *testing.T) {
	srv := realtest.Redis(t)
	for _, mode := range clientModes() {
		t.Run(mode.name, func(t *testing.T) {
			rdb := mode.client(t, srv.Addr())
			storetest.Run(t, storetest.Harness{
				New:   func(t *testing.T) guard.Store { t.Helper(); return newStore(t, rdb) },
				Lose:  lose(rdb),
				Spoil: spoil(rdb),
			})
		})
	}
	everyKeyExpires(t, srv.Client(t))
}

type clientMode struct {
	name    string
	options redis.Options
}

func clientModes() []clientMode {
	return []clientMode{
		{"with ContextTimeoutEnabled", redis.Options{ContextTimeoutEnabled: true}},
		{"without ContextTimeoutEnabled", redis.Options{}},
	}
}

func (m clientMode) client(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	options := m.options
	options.Addr = addr
	rdb := redis.NewClient(&options)
	tb.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func newStore(tb testing.TB, rdb redis.UniversalClient) *Store {
	tb.Helper()
	store, err := New(rdb, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

func lose(rdb *redis.Client) func(*testing.T, guard.Store, guard.Key) {
	return func(t *testing.T, _ guard.Store, key guard.Key) {
		t.Helper()
		if err := rdb.Del(t.Context(), storageKey(DefaultPrefix, key)).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// spoil makes the record one of a newer version.
func spoil(rdb *redis.Client) func(*testing.T, guard.Store, guard.Key) {
	return func(t *testing.T, _ guard.Store, key guard.Key) {
		t.Helper()
		err := rdb.Set(t.Context(), storageKey(DefaultPrefix, key), "onceguard/2 pending\nowner=x\n", time.Hour).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// everyKeyExpires is what is left of case K3 for a store: no key without an
// expiry, ever. It looks at every key of the server.
func everyKeyExpires(t *testing.T, rdb *redis.Client) {
	t.Helper()
	ctx := context.Background()
	seen := 0
	for keys := rdb.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); seen++ {
		ttl, err := rdb.PTTL(ctx, keys.Val()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if ttl == -1 {
			t.Errorf("%q has no expiry", keys.Val())
		}
	}
	if seen < 100 {
		t.Errorf("%d keys: the suite left fewer than it should", seen)
	}
}
