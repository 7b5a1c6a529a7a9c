package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// skewedStore is a store whose clock goes ahead of its callers' by a skew: every
// time it replies is shifted, and every time it is sent is taken as its own.
type skewedStore struct {
	guard.Store
	ahead time.Duration
}

func (s skewedStore) shift(r guard.Record, by time.Duration) guard.Record {
	for _, t := range []*time.Time{&r.Until, &r.Created, &r.Updated} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	return r
}

func (s skewedStore) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	reply, err := s.Store.Reserve(ctx, req)
	reply.Record = s.shift(reply.Record, s.ahead)
	return reply, err
}

func (s skewedStore) Renew(ctx context.Context, req guard.RenewRequest) (guard.RenewReply, error) {
	req.Record = s.shift(req.Record, -s.ahead)
	reply, err := s.Store.Renew(ctx, req)
	if !reply.Until.IsZero() {
		reply.Until = reply.Until.Add(s.ahead)
	}
	return reply, err
}

func (s skewedStore) Replace(ctx context.Context, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	req.Record = s.shift(req.Record, -s.ahead)
	return s.Store.Replace(ctx, req)
}

func (s skewedStore) Release(ctx context.Context, req guard.ReleaseRequest) (guard.ReleaseReply, error) {
	req.Record = s.shift(req.Record, -s.ahead)
	return s.Store.Release(ctx, req)
}

func (s skewedStore) Load(ctx context.Context, req guard.LoadRequest) (guard.LoadReply, error) {
	reply, err := s.Store.Load(ctx, req)
	reply.Record = s.shift(reply.Record, s.ahead)
	return reply, err
}

func TestCase_L9_ACallerWhoseClockIsTwoMinutesOffDecidesTheSame(t *testing.T) {
	for name, ahead := range map[string]time.Duration{
		"the caller is ahead": -2 * time.Minute, "the caller is behind": 2 * time.Minute, "the clocks agree": 0,
	} {
		t.Run("a live lease is not taken, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := guard.NewMemoryStore()
				straight, _ := newOp[int](t, store)
				skewed, _ := newOp[int](t, skewedStore{store, ahead}, guard.OnInFlight(guard.Refuse))
				first := start(t.Context(), straight, "order-1", slow(90*time.Second).act)
				for range 80 {
					time.Sleep(time.Second)
					_, err := skewed.Do(t.Context(), "order-1", new(counter).act)
					var held *guard.InProgressError
					if !errors.As(err, &held) || held.RetryAfter > lease || held.RetryAfter < lease/2 {
						t.Fatalf("got %v, want refused with the lease left", err)
					}
				}
				<-first
			})
		})
		t.Run("a lost record is put back in time only, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := guard.NewMemoryStore()
				flaky := newFaultyStore()
				flaky.Store = store
				op, rec := newOp[int](t, skewedStore{flaky, ahead})
				call := start(t.Context(), op, "order-1", slow(3*time.Minute).act)
				time.Sleep(15 * time.Second)
				store.Clear() // within the lease: the renewal at 20 s puts it back
				time.Sleep(10 * time.Second)
				if !load(t, store, "order-1").Found {
					t.Error("the renewal did not put the record back")
				}
				flaky.set(fails, guard.PhaseRenew)
				time.Sleep(40 * time.Second)
				store.Clear() // after the lease: somebody else may have had the key
				flaky.set(nil, guard.PhaseRenew)
				time.Sleep(40 * time.Second)
				if load(t, store, "order-1").Found {
					t.Error("a renewal put a record back after its lease")
				}
				<-call
				if rec.count(guard.EventLost) != 1 {
					t.Errorf("lost %d times, want once", rec.count(guard.EventLost))
				}
			})
		})
	}
}
