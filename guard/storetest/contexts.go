package storetest

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// prompt bounds a call whose context has ended already.
const prompt = 2 * time.Second

func contextClauses() []clause {
	return []clause{
		{"a canceled context fails every call at once", func(e *env) {
			ctx, cancel := context.WithCancel(e.ctx())
			cancel()
			e.unchanged(func() { e.failsAtOnce(ctx, context.Canceled) })
		}},
		{"an expired context fails every call at once", func(e *env) {
			ctx, cancel := context.WithDeadline(e.ctx(), time.Now())
			defer cancel()
			e.unchanged(func() { e.failsAtOnce(ctx, context.DeadlineExceeded) })
		}},
		{"a call without a deadline works", func(e *env) {
			_, err := e.store.Load(context.Background(), guard.LoadRequest{Key: e.key})
			e.check("load", err)
		}},
	}
}

func (e *env) failsAtOnce(ctx context.Context, want error) {
	e.Helper()
	for name, call := range e.calls() {
		start := time.Now()
		if err := call(ctx); !errors.Is(err, want) {
			e.Errorf("%s: %v, want %v", name, err, want)
		}
		if took := time.Since(start); took > prompt {
			e.Errorf("%s took %s", name, took)
		}
	}
}

// calls is every method on the key of the clause.
func (e *env) calls() map[string]func(context.Context) error {
	rec := guard.Record{Owner: newOwner(), Status: guard.StatusPending, Until: time.Now().Add(longLease)}
	calls := e.abilities(rec)
	maps.Copy(calls, map[string]func(context.Context) error{
		"reserve": func(ctx context.Context) error {
			_, err := e.store.Reserve(ctx, guard.ReserveRequest{
				Key: e.key, Owner: rec.Owner, Lease: longLease, Retention: retention,
			})
			return err
		},
		"renew": func(ctx context.Context) error {
			_, err := e.store.Renew(ctx, guard.RenewRequest{
				Key: e.key, Record: rec, Lease: longLease, Retention: retention,
			})
			return err
		},
		"replace": func(ctx context.Context) error {
			_, err := e.store.Replace(ctx, guard.ReplaceRequest{
				Key: e.key, Record: rec, Lease: longLease, Retention: retention,
			})
			return err
		},
		"release": func(ctx context.Context) error {
			_, err := e.store.Release(ctx, guard.ReleaseRequest{Key: e.key, Record: rec, Lease: longLease})
			return err
		},
		"load": func(ctx context.Context) error {
			_, err := e.store.Load(ctx, guard.LoadRequest{Key: e.key})
			return err
		},
	})
	return calls
}

// abilities is the same for what the store is able to do beside the protocol.
func (e *env) abilities(rec guard.Record) map[string]func(context.Context) error {
	calls := map[string]func(context.Context) error{}
	if eraser, ok := e.store.(guard.Eraser); ok {
		calls["erase"] = func(ctx context.Context) error {
			_, err := eraser.Erase(ctx, guard.EraseRequest{Key: e.key, Lease: longLease})
			return err
		}
	}
	if holder, ok := e.store.(guard.Holder); ok {
		calls["hold"] = func(ctx context.Context) error {
			_, err := holder.Hold(ctx, guard.HoldRequest{Key: e.key, Record: rec, Lease: longLease, Retention: retention})
			return err
		}
	}
	if resolver, ok := e.store.(guard.Resolver); ok {
		calls["resolve"] = func(ctx context.Context) error {
			req := settlement(rec, guard.StatusReleased)
			req.Key = e.key
			_, err := resolver.Resolve(ctx, req)
			return err
		}
	}
	if lister, ok := e.store.(guard.Lister); ok {
		calls["list"] = func(ctx context.Context) error {
			_, err := lister.List(ctx, guard.ListRequest{Limit: 1})
			return err
		}
	}
	return calls
}
