package guard_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func TestRun_TakesNoReservationAndStoresTheResult(t *testing.T) {
	store := newFaultyStore()
	op, rec := newOp[int](t, store, guard.OnInFlight(guard.Run))
	var c counter
	for range 2 {
		if got, err := op.Do(t.Context(), "order-1", c.act); got != 1 || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
	}
	if store.called(guard.PhaseReserve) != 0 {
		t.Error("Run reserved")
	}
	rec.wantOutcomes(t, guard.OutcomeUnguarded, guard.OutcomeReplayed)
}

func TestRun_AFailureLeavesNothingBehind(t *testing.T) {
	store := newFaultyStore()
	op, _ := newOp[int](t, store, guard.OnInFlight(guard.Run))
	declined := errors.New("declined")
	if _, err := op.Do(t.Context(), "order-1", func(context.Context) (int, error) { return 0, declined }); err != declined { //nolint:errorlint // identity is the promise
		t.Errorf("got %v", err)
	}
	if load(t, store, "order-1").Found {
		t.Error("a run without a reservation has nothing to release")
	}
}

func TestRun_AnothersReservationStaysUntouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		dead := reserveAs(t, store, "other")
		op, rec := newOp[int](t, store, guard.OnInFlight(guard.Run))
		r, err := op.DoResult(t.Context(), "order-1", new(counter).act)
		if err != nil || r.Value != 1 || r.Stale {
			t.Errorf("got %+v, %v; want its own result, without alarm", r, err)
		}
		if got := load(t, store, "order-1").Record; got.Owner.Token != "other" || got.Fence != dead.Record.Fence {
			t.Errorf("the reservation was touched: %+v", got)
		}
		if rec.count(guard.EventStale) != 0 || rec.count(guard.EventCollision) != 1 {
			t.Error("Run counts the collision and raises no stale result")
		}
	})
}

func TestRun_AnothersResultThatLandedFirstIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, rec := newOp[int](t, store, guard.OnInFlight(guard.Run))
		slower := start(t.Context(), op, "order-1", func(context.Context) (int, error) {
			time.Sleep(2 * time.Second)
			return 2, nil
		})
		time.Sleep(time.Second)
		if got, err := op.Do(t.Context(), "order-1", new(counter).act); got != 1 || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
		if r := <-slower; r.Value != 1 || r.err != nil || r.ExecutedAt.IsZero() {
			t.Errorf("got %+v, want the result that landed first", r)
		}
		rec.wantOutcomes(t, guard.OutcomeUnguarded, guard.OutcomeUnguarded)
	})
}

func TestRun_TheStoreFailsBeforeTheAction(t *testing.T) {
	for mode, want := range map[guard.StorageErrorMode]guard.Outcome{
		guard.FailOpen: guard.OutcomeUnguarded, guard.FailClosed: guard.OutcomeRejected,
	} {
		store := newFaultyStore()
		store.set(fails, guard.PhaseLoad, guard.PhaseReplace)
		op, rec := newOp[int](t, store, guard.OnInFlight(guard.Run), guard.OnStorageError(mode))
		_, err := op.Do(t.Context(), "order-1", new(counter).act)
		if errors.Is(err, guard.ErrStorage) != (mode == guard.FailClosed) {
			t.Errorf("%s: got %v", mode, err)
		}
		rec.wantOutcomes(t, want)
	}
}

func TestRun_AnotherInputIsAMismatch(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore(), guard.OnInFlight(guard.Run))
	var c counter
	if _, err := op.Do(t.Context(), "order-1", c.act, guard.WithInput(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Do(t.Context(), "order-1", c.act, guard.WithInput(2)); !errors.Is(err, guard.ErrMismatch) || c.count() != 1 {
		t.Errorf("got %v after %d runs", err, c.count())
	}
}

func TestOnUnreadable_ExactlyOneCallerHealsTheKey(t *testing.T) {
	for _, mode := range []guard.StorageErrorMode{guard.FailOpen, guard.FailClosed} {
		store := guard.NewMemoryStore()
		old, _ := newOp[int](t, store, guard.WithCodec(otherCodec{guard.JSON()}))
		if _, err := old.Do(t.Context(), "order-1", new(counter).act); err != nil {
			t.Fatal(err)
		}
		op, rec := newOp[int](t, store, guard.OnStorageError(mode))
		c := counter{before: func(int) error { time.Sleep(20 * time.Millisecond); return nil }}
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if got, err := op.Do(t.Context(), "order-1", c.act); got != 1 || err != nil {
					t.Errorf("%s: got %d, %v", mode, got, err)
				}
			})
		}
		group.Wait()
		if c.count() != 1 {
			t.Errorf("%s: %d runs, want one caller to heal", mode, c.count())
		}
		for _, e := range rec.events {
			if e.Kind == guard.EventAcquired && e.Record.TookOver != nil {
				t.Errorf("%s: a result that cannot be read is no dead owner's reservation", mode)
			}
		}
	}
}

func TestOnUnreadable_InRunModeTheCallKeepsItsOwnResult(t *testing.T) {
	store := guard.NewMemoryStore()
	old, _ := newOp[int](t, store, guard.WithCodec(otherCodec{guard.JSON()}))
	if _, err := old.Do(t.Context(), "order-1", new(counter).act); err != nil {
		t.Fatal(err)
	}
	op, _ := newOp[int](t, store, guard.OnInFlight(guard.Run))
	if got, err := op.Do(t.Context(), "order-1", func(context.Context) (int, error) { return 5, nil }); got != 5 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestOnUnreadable_ACallerThatCameLateIsToldOfTheHealersLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		old, _ := newOp[int](t, store, guard.WithCodec(otherCodec{guard.JSON()}))
		if _, err := old.Do(t.Context(), "order-1", new(counter).act); err != nil {
			t.Fatal(err)
		}
		op, _ := newOp[int](t, store, guard.OnInFlight(guard.Refuse))
		gate := newFaultyStore()
		gate.Store = store
		late, _ := newOp[int](t, gate, guard.OnInFlight(guard.Refuse))
		healing := make(chan (<-chan callResult[int]), 1)
		gate.set(func(ctx context.Context, call func(context.Context) error) error {
			err := call(ctx) // it has seen the unreadable result: now another one heals
			gate.set(nil, guard.PhaseReserve)
			healing <- start(t.Context(), op, "order-1", slow(time.Second).act)
			time.Sleep(time.Millisecond)
			return err
		}, guard.PhaseReserve)
		_, err := late.Do(t.Context(), "order-1", new(counter).act)
		var held *guard.InProgressError
		if !errors.As(err, &held) || held.RetryAfter > lease || held.Owner == "" {
			t.Errorf("got %v, want the lease of the one who heals", err)
		}
		if r := <-<-healing; r.err != nil {
			t.Error(r.err)
		}
	})
}
