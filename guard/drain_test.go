package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func TestDrain_ServesTheCallsOfTheActionsThatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, op := newGuardOp[int](t, guard.NewMemoryStore())
		mail, err := guard.NewOperation[int](g, "mail.send")
		if err != nil {
			t.Fatal(err)
		}
		var leaked context.Context
		call := start(t.Context(), op, "order-1", func(ctx context.Context) (int, error) {
			leaked = ctx //nolint:fatcontext // that it leaks is the test
			time.Sleep(10 * time.Second)
			return mail.Do(ctx, "order-1", new(counter).act)
		})
		time.Sleep(time.Second)
		if err := g.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if r := <-call; r.err != nil || r.Value != 1 {
			t.Errorf("got %+v, want the inner call served", r)
		}
		if _, err := mail.Do(leaked, "order-2", new(counter).act); !errors.Is(err, guard.ErrDraining) {
			t.Errorf("got %v: an action that has come back is no reason to serve", err)
		}
	})
}

func TestDrain_ReturnsAfterTheObserverHasHeardOfEveryCall(t *testing.T) {
	for range 50 {
		rec := &recorder{}
		g, err := guard.New(guard.NewMemoryStore(), guard.WithObserver(rec))
		if err != nil {
			t.Fatal(err)
		}
		op, err := guard.NewOperation[int](g, "x")
		if err != nil {
			t.Fatal(err)
		}
		running := make(chan struct{})
		go func() {
			_, _ = op.Do(context.Background(), "k", func(context.Context) (int, error) { close(running); return 1, nil })
		}()
		<-running
		if err := g.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(rec.outcomes()); n != 1 {
			t.Fatalf("%d calls have ended for the observer, want 1", n)
		}
	}
}

func TestKeepReserved_ARenewalThatLandsLateDoesNotShortenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := errors.New("later")
		store := newFaultyStore()
		op, _ := newOp[int](t, store, guard.OnInFlight(guard.Refuse),
			guard.KeepReserved(func(err error) (time.Duration, bool) { return 72 * time.Hour, errors.Is(err, later) }))
		store.set(once(func(ctx context.Context, call func(context.Context) error) error {
			go func() { // on the wire for long after its caller has given up
				time.Sleep(5 * time.Second)
				_ = call(context.WithoutCancel(ctx))
			}()
			return hangs(ctx, call)
		}), guard.PhaseRenew)
		_, err := op.Do(t.Context(), "order-1", func(context.Context) (int, error) {
			time.Sleep(10*time.Second + 500*time.Millisecond)
			return 0, later
		})
		if !errors.Is(err, later) {
			t.Fatal(err)
		}
		time.Sleep(71 * time.Hour)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); !errors.Is(err, guard.ErrInProgress) {
			t.Errorf("got %v, want the key reserved for 72 hours", err)
		}
	})
}

func TestKeepReserved_ALeaseThatIsGoneIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := errors.New("later")
		store := guard.NewMemoryStore()
		op, rec := newOp[int](t, store,
			guard.KeepReserved(func(err error) (time.Duration, bool) { return time.Hour, errors.Is(err, later) }))
		_, _ = op.Do(t.Context(), "order-1", func(context.Context) (int, error) {
			store.Clear()
			reserveAs(t, store, "rival")
			return 0, later
		})
		rec.wantOutcomes(t, guard.OutcomePending)
		if rec.count(guard.EventLost) != 1 {
			t.Errorf("lost %d times, want once: another owner has the key", rec.count(guard.EventLost))
		}
	})
}

func TestKeepReserved_InRunModeNothingIsKeptOrReleased(t *testing.T) {
	later := errors.New("later")
	store := newFaultyStore()
	op, rec := newOp[int](t, store, guard.OnInFlight(guard.Run),
		guard.KeepReserved(func(err error) (time.Duration, bool) { return time.Hour, errors.Is(err, later) }))
	_, _ = op.Do(t.Context(), "order-1", func(context.Context) (int, error) { return 0, later })
	rec.wantOutcomes(t, guard.OutcomePending)
	if load(t, store, "order-1").Found {
		t.Error("the mode reserves nothing")
	}
}
