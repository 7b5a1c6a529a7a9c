package guard_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

var (
	errDeclined  = errors.New("card declined")
	errAmbiguous = errors.New("connection reset after the request was sent")
)

// die is an action that ends with its owner, as a killed process does: it never
// comes back, and its renewals stop. The store must be one of its own guard.
func die(t *testing.T, store guard.Store, key string, opts ...guard.OperationOption) guard.Record {
	t.Helper()
	rec := abandon(t, store, key, opts...)
	left := load(t, store, key).Left
	time.Sleep(left)
	return rec
}

// abandon acquires a key as an operation with these options does, and leaves it.
func abandon(t *testing.T, store guard.Store, key string, opts ...guard.OperationOption) guard.Record {
	t.Helper()
	spy := &reserveSpy{Store: store}
	op, _ := newOp[int](t, spy, opts...)
	go func() {
		_, _ = op.Do(t.Context(), key, func(context.Context) (int, error) {
			runtime.Goexit()
			return 0, nil
		})
	}()
	synctest.Wait()
	if !spy.acquired {
		t.Fatal("the dying owner did not get the key")
	}
	t.Cleanup(func() { time.Sleep(2 * maxTestLease) }) // until it has given up
	return load(t, store, key).Record
}

// maxTestLease is the longest lease of an owner that dies in these tests.
const maxTestLease = time.Hour

// reserveSpy lets one reservation through, and nothing that its owner does later.
type reserveSpy struct {
	guard.Store
	acquired bool
}

func (s *reserveSpy) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	reply, err := s.Store.Reserve(ctx, req)
	s.acquired = reply.Acquired
	return reply, err
}

func (*reserveSpy) Renew(context.Context, guard.RenewRequest) (guard.RenewReply, error) {
	return guard.RenewReply{}, errStoreDown
}

func (*reserveSpy) Replace(context.Context, guard.ReplaceRequest) (guard.ReplaceReply, error) {
	return guard.ReplaceReply{}, errStoreDown
}

func (*reserveSpy) Release(context.Context, guard.ReleaseRequest) (guard.ReleaseReply, error) {
	return guard.ReleaseReply{}, errStoreDown
}

func (*reserveSpy) Hold(context.Context, guard.HoldRequest) (guard.HoldReply, error) {
	return guard.HoldReply{}, errStoreDown
}

func atMostOnce(more ...guard.OperationOption) []guard.OperationOption {
	return append([]guard.OperationOption{guard.ForPayments(), guard.AtMostOnce()}, more...)
}

func TestAtMostOnce_ADeadOwnersKeyIsHeldAndNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		dead := die(t, store, "k", atMostOnce()...)
		op, rec := newOp[int](t, store, atMostOnce()...)
		var c counter
		for range 2 {
			_, err := op.Do(t.Context(), "k", c.act)
			unknown, ok := errors.AsType[*guard.OutcomeUnknownError](err)
			if !ok || !errors.Is(err, guard.ErrOutcomeUnknown) {
				t.Fatalf("got %v, want outcome unknown", err)
			}
			if unknown.Fence != dead.Fence || unknown.Owner != "test/1" || !unknown.Since.Equal(dead.Created) ||
				unknown.TraceParent != dead.Owner.TraceParent || unknown.RetryAfter != 0 {
				t.Errorf("%+v, want the dead owner of %+v", unknown, dead)
			}
		}
		if c.count() != 0 {
			t.Error("the action ran")
		}
		rec.wantOutcomes(t, guard.OutcomeUnknown, guard.OutcomeUnknown)
		rec.wantReason(t, guard.EventHeld, guard.ReasonAbandoned) // once
		if n := rec.count(guard.EventUnknown); n != 2 {
			t.Errorf("%d events of an unknown outcome, want 2", n)
		}
		if got := load(t, store, "k").Record; got.Status != guard.StatusHeld {
			t.Errorf("the key is %s, want held", got.Status)
		}
	})
}

func TestAtMostOnce_AWaiterIsToldWhenTheOwnerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		abandon(t, store, "k", atMostOnce()...)
		op, _ := newOp[int](t, store, atMostOnce(guard.WithWaitBound(time.Hour))...)
		start := time.Now()
		var c counter
		_, err := op.Do(t.Context(), "k", c.act)
		if !errors.Is(err, guard.ErrOutcomeUnknown) || c.count() != 0 {
			t.Fatalf("got %v after %d runs", err, c.count())
		}
		if waited := time.Since(start); waited > guard.DefaultLease+time.Second {
			t.Errorf("waited %s for a lease of %s", waited, guard.DefaultLease)
		}
	})
}

func TestAtMostOnce_TheOwnerThatStoodStillSettlesItsHeldKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, atMostOnce()...)
		store.set(fails, guard.PhaseRenew) // cut off from the store
		action := func(context.Context) (int, error) {
			time.Sleep(guard.DefaultLease + time.Second)
			if _, err := op.Do(t.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrOutcomeUnknown) {
				t.Errorf("a second call got %v", err)
			}
			store.set(nil, guard.PhaseRenew)
			return 7, nil
		}
		if got, err := op.Do(t.Context(), "k", action); got != 7 || err != nil {
			t.Fatal(got, err)
		}
		if got, err := op.Do(t.Context(), "k", new(counter).act); got != 7 || err != nil {
			t.Errorf("got %d, %v: the result did not settle the held key", got, err)
		}
		rec.wantOutcomes(t, guard.OutcomeUnknown, guard.OutcomeExecuted, guard.OutcomeReplayed)
		if n := rec.count(guard.EventStale); n != 0 {
			t.Error("its result was called stale")
		}
	})
}

func TestAtMostOnce_IsBoundedByTheHoldRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		opts := atMostOnce(guard.WithHoldRetention(time.Hour), guard.WithRetention(time.Minute))
		die(t, store, "k", opts...)
		op, _ := newOp[int](t, store, opts...)
		if _, err := op.Do(t.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got, err := op.Do(t.Context(), "k", new(counter).act); got != 1 || err != nil {
			t.Errorf("got %d, %v after the hold", got, err)
		}
	})
}

func TestHeld_AnotherInputIsAMismatchAlsoPastTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, _ := newOp[int](t, store, atMostOnce()...)
		fail := func(context.Context) (int, error) { return 0, errAmbiguous }
		if _, err := op.Do(t.Context(), "k", fail, guard.WithInput("ten euros")); !errors.Is(err, errAmbiguous) {
			t.Fatal(err)
		}
		if _, err := op.Do(t.Context(), "k", fail, guard.WithInput("twelve")); !errors.Is(err, guard.ErrMismatch) {
			t.Errorf("got %v, want a mismatch", err)
		}
		if _, err := op.Do(t.Context(), "k", fail, guard.WithInput("ten euros")); !errors.Is(err, guard.ErrOutcomeUnknown) {
			t.Errorf("got %v, want outcome unknown", err)
		}
	})
}

// TestDispatched_NeverEndsInARelease: what ends a dispatched run without an answer
// holds the key.
func TestDispatched_NeverEndsInARelease(t *testing.T) {
	for name, c := range map[string]struct {
		act    func(context.Context) (any, error)
		reason string
	}{
		"error":  {func(context.Context) (any, error) { return nil, errAmbiguous }, guard.ReasonDispatched},
		"panic":  {func(context.Context) (any, error) { panic("boom") }, guard.ReasonUnwound},
		"goexit": {func(context.Context) (any, error) { runtime.Goexit(); return nil, nil }, guard.ReasonUnwound},
		"canceled": {func(ctx context.Context) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, guard.ReasonDispatched},
		"result that does not encode": {func(context.Context) (any, error) { return func() {}, nil }, guard.ReasonUnstored},
		"result that is too large": {func(context.Context) (any, error) {
			return strings.Repeat("x", 2<<20), nil
		}, guard.ReasonUnstored},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := guard.NewMemoryStore()
				op, rec := newOp[any](t, store, atMostOnce()...)
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					_, _ = op.Do(ctx, "k", c.act)
				}()
				<-done
				rec.wantReason(t, guard.EventHeld, c.reason)
				got := load(t, store, "k").Record
				if got.Status != guard.StatusHeld || got.Dispatch == nil || got.Dispatch.Owner != got.Owner {
					t.Errorf("the key is %s by %+v, want held by its own dispatch", got.Status, got.Dispatch)
				}
				_, err := op.Do(t.Context(), "k", func(context.Context) (any, error) { return 1, nil })
				if !errors.Is(err, guard.ErrOutcomeUnknown) {
					t.Errorf("the next call got %v", err)
				}
			})
		})
	}
}
