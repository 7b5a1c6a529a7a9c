package guard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// newGuardOp makes an operation and gives its guard too.
func newGuardOp[T any](tb testing.TB, store guard.Store, opts ...guard.OperationOption) (*guard.Guard, *guard.Operation[T]) {
	tb.Helper()
	g, err := guard.New(store)
	if err != nil {
		tb.Fatal(err)
	}
	op, err := guard.NewOperation[T](g, "payment.charge", opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return g, op
}

func TestNestedCall_OnItsOwnKeyIsAnErrorAtOnce(t *testing.T) {
	op, rec := newOp[int](t, guard.NewMemoryStore())
	other, _ := newOp[int](t, guard.NewMemoryStore())
	var c counter
	_, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (int, error) {
		return other.Do(ctx, "order-1", func(ctx context.Context) (int, error) { // another guard
			return op.Do(ctx, "order-2", func(ctx context.Context) (int, error) { // another key
				return op.Do(ctx, "order-1", c.act) // itself, two levels up
			})
		})
	})
	if !errors.Is(err, guard.ErrNestedCall) || c.count() != 0 {
		t.Errorf("got %v after %d runs, want ErrNestedCall and none", err, c.count())
	}
	if first := rec.outcomes()[0]; first != guard.OutcomeInvalid {
		t.Errorf("the inner call was %q, want invalid", first)
	}
}

func TestLeaseFromContext_TheActionSeesItsFence(t *testing.T) {
	store := newFaultyStore()
	op, _ := newOp[int64](t, store)
	fence := func(ctx context.Context) (int64, error) {
		l, ok := guard.LeaseFromContext(ctx)
		if !ok {
			return 0, nil
		}
		return l.Fence(), nil
	}
	r, err := op.DoResult(t.Context(), "order-1", fence)
	if err != nil || r.Value != r.Fence || r.Fence == 0 {
		t.Errorf("got %+v, %v; want the fence of the reservation", r, err)
	}
	if _, ok := guard.LeaseFromContext(t.Context()); ok {
		t.Error("there is no lease outside of an action")
	}
	store.set(fails, guard.PhaseReserve)
	if got, err := op.Do(t.Context(), "order-2", fence); got != 0 || err != nil {
		t.Errorf("an unguarded action has no lease: got %d, %v", got, err)
	}
}

func TestLeaseLost_TheActionIsToldAndCarriesOnByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, _ := newOp[time.Duration](t, store)
		store.set(fails, guard.PhaseRenew)
		began := time.Now()
		lostAfter, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (time.Duration, error) {
			l, _ := guard.LeaseFromContext(ctx)
			<-l.Lost()
			return time.Since(began), ctx.Err()
		})
		if err != nil || lostAfter < lease || lostAfter > lease+time.Second {
			t.Errorf("lost after %s, context %v; want after the lease and a live context", lostAfter, err)
		}
	})
}

func TestLeaseLost_CancelsTheActionIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, guard.WithCancelOnLost())
		store.set(fails, guard.PhaseRenew)
		_, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("got %v, want the cause ErrLeaseLost", err)
		}
		rec.wantOutcomes(t, guard.OutcomeFailed)
		store.set(nil, guard.PhaseRenew)
		if _, err := op.Do(t.Context(), "order-2", slow(time.Minute).act); err != nil {
			t.Errorf("a lease that is kept cancels nothing: %v", err)
		}
	})
}

func TestMaxHold_AHangingActionsKeyBecomesFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, rec := newOp[int](t, store, guard.WithMaxHold(time.Minute), guard.OnInFlight(guard.Refuse))
		unhang := make(chan struct{})
		hanging := start(t.Context(), op, "order-1", func(context.Context) (int, error) {
			<-unhang
			return 1, nil
		})
		time.Sleep(time.Minute)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); !errors.Is(err, guard.ErrInProgress) {
			t.Errorf("within the limit the key is held, got %v", err)
		}
		time.Sleep(lease + time.Second)
		if _, err := op.Do(t.Context(), "order-1", func(context.Context) (int, error) { return 2, nil }); err != nil {
			t.Errorf("a lease after the limit the key must be free, got %v", err)
		}
		close(unhang)
		if r := <-hanging; !r.Stale || r.Value != 1 {
			t.Errorf("the action that comes back late must be told: %+v", r)
		}
		if rec.count(guard.EventLost) != 1 {
			t.Errorf("lost %d times, want once", rec.count(guard.EventLost))
		}
	})
}

func TestKeepReserved_AnErrorThatMeansLaterKeepsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errPending := errors.New("result comes later")
		op, rec := newOp[int](t, guard.NewMemoryStore(), guard.OnInFlight(guard.Refuse),
			guard.KeepReserved(func(err error) (time.Duration, bool) { return time.Hour, errors.Is(err, errPending) }))
		_, err := op.Do(t.Context(), "order-1", func(context.Context) (int, error) { return 0, errPending })
		if err != errPending { //nolint:errorlint // identity is the promise
			t.Errorf("got %v, want the action's own error", err)
		}
		time.Sleep(59 * time.Minute)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); !errors.Is(err, guard.ErrInProgress) {
			t.Errorf("got %v, want the key reserved for the hour", err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); err != nil {
			t.Errorf("after the hour the key must be free, got %v", err)
		}
		_, _ = op.Do(t.Context(), "order-2", func(context.Context) (int, error) { return 0, errors.New("declined") })
		if _, err := op.Do(t.Context(), "order-2", new(counter).act); err != nil {
			t.Errorf("other errors release, got %v", err)
		}
		rec.wantOutcomes(t, guard.OutcomePending, guard.OutcomeRefused, guard.OutcomeExecuted,
			guard.OutcomeFailed, guard.OutcomeExecuted)
	})
}

func TestWithEnabled_OffEveryCallRunsAndNothingIsAskedOfTheStore(t *testing.T) {
	store := newFaultyStore()
	var on atomic.Bool
	op, rec := newOp[int](t, store, guard.WithEnabled(on.Load))
	var c counter
	for range 2 {
		if _, err := op.Do(t.Context(), "order-1", c.act); err != nil {
			t.Fatal(err)
		}
	}
	_, err := op.Do(t.Context(), "order-1", func(context.Context) (int, error) { return 0, errStoreDown })
	if !errors.Is(err, errStoreDown) {
		t.Error(err)
	}
	for _, p := range []guard.Phase{guard.PhaseReserve, guard.PhaseReplace, guard.PhaseRelease, guard.PhaseRenew} {
		if n := store.called(p); n != 0 {
			t.Errorf("%d calls of %s, want none", n, p)
		}
	}
	on.Store(true)
	if got, err := op.Do(t.Context(), "order-1", c.act); got != 3 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	rec.wantOutcomes(t, guard.OutcomeUnguarded, guard.OutcomeUnguarded, guard.OutcomeFailed, guard.OutcomeExecuted)
	if rec.count(guard.EventUnguarded) != 3 {
		t.Error("each unguarded run must be counted")
	}
}

func TestWithEnabled_ASwitchThatPanicsGuards(t *testing.T) {
	op, rec := newOp[int](t, guard.NewMemoryStore(), guard.WithEnabled(func() bool { panic("flag service down") }))
	if _, err := op.Do(t.Context(), "order-1", new(counter).act); err != nil {
		t.Fatal(err)
	}
	rec.wantOutcomes(t, guard.OutcomeExecuted)
}

func TestDrain_WaitsForActionsAndRefusesNewCallsAndWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		g, op := newGuardOp[int](t, store)
		first := start(t.Context(), op, "order-1", slow(10*time.Second).act)
		time.Sleep(time.Second)
		waiting := start(t.Context(), op, "order-1", new(counter).act)
		time.Sleep(time.Second)

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the context's end: an action still runs", err)
		}
		if r := <-waiting; !errors.Is(r.err, guard.ErrDraining) {
			t.Errorf("a waiter got %v, want ErrDraining", r.err)
		}
		if _, err := op.Do(t.Context(), "order-2", new(counter).act); !errors.Is(err, guard.ErrDraining) {
			t.Errorf("a new call got %v, want ErrDraining", err)
		}
		if err := g.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if status := load(t, store, "order-1").Record.Status; status != guard.StatusCompleted {
			t.Errorf("record is %q after Drain, want the result", status)
		}
		if r := <-first; r.err != nil {
			t.Error(r.err)
		}
		if err := g.Drain(t.Context()); err != nil {
			t.Errorf("a second Drain must be harmless: %v", err)
		}
	})
}

func TestDrain_OfAnIdleGuardReturnsAtOnce(t *testing.T) {
	g, _ := newGuardOp[int](t, guard.NewMemoryStore())
	if err := g.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWithMaxHold_MustBePositive(t *testing.T) {
	if _, err := guard.New(guard.NewMemoryStore(), guard.WithMaxHold(0)); err == nil {
		t.Error("want an error")
	}
}
