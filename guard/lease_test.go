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

func TestCase_L1_SlowActionKeepsItsKeyForThreeLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore(), guard.OnInFlight(guard.Refuse))
		c := slow(3*lease + time.Second)
		first := start(t.Context(), op, "order-1", c.act)
		for range 89 {
			time.Sleep(time.Second)
			if _, err := op.Do(t.Context(), "order-1", c.act); !errors.Is(err, guard.ErrInProgress) {
				t.Fatalf("got %v, want refused", err)
			}
		}
		if r := <-first; r.err != nil || c.count() != 1 {
			t.Errorf("got %+v after %d runs", r, c.count())
		}
		if n := rec.phase("renew:ok"); n != 9 {
			t.Errorf("%d renewals in 91 s, want one every 10 s", n)
		}
	})
}

func TestLease_TenMinuteActionInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore())
		if _, err := op.Do(t.Context(), "order-1", slow(10*time.Minute).act); err != nil {
			t.Fatal(err)
		}
		if rec.count(guard.EventLost) != 0 || rec.phase("replace:stored") != 1 {
			t.Errorf("phases %q", rec.phases)
		}
	})
}

func TestCase_L3_DeletedAndReservedByAnotherIsNotStolenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, rec := newOp[int](t, store)
		call := start(t.Context(), op, "order-1", slow(25*time.Second).act)
		time.Sleep(time.Second)
		store.Clear()
		rival := reserveAs(t, store, "rival")
		r := <-call
		if r.err != nil || r.Value != 1 || !r.Stale {
			t.Errorf("got %+v; want the caller's own result, flagged", r)
		}
		got := load(t, store, "order-1").Record
		if got.Owner.Token != "rival" || got.Fence != rival.Record.Fence || got.Status != guard.StatusPending {
			t.Errorf("the rival's record was touched: %+v", got)
		}
		if rec.count(guard.EventLost) != 1 || rec.count(guard.EventStale) != 1 {
			t.Errorf("lost %d times, stale %d times; want once each", rec.count(guard.EventLost), rec.count(guard.EventStale))
		}
	})
}

func TestLease_FlushWithoutARivalIsHealedByTheNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, rec := newOp[int](t, store, guard.OnInFlight(guard.Refuse))
		call := start(t.Context(), op, "order-1", slow(25*time.Second).act)
		time.Sleep(time.Second)
		store.Clear()
		time.Sleep(10 * time.Second)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); !errors.Is(err, guard.ErrInProgress) {
			t.Errorf("a renewal later the key must be held again, got %v", err)
		}
		if r := <-call; r.err != nil || r.Stale {
			t.Errorf("got %+v", r)
		}
		if rec.phase("renew:restored") != 1 || rec.count(guard.EventLost) != 0 {
			t.Errorf("phases %q", rec.phases)
		}
	})
}

func TestCase_L4_ReleaseOfAnExpiredOwnerLeavesTheNewOwnerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, _ := newOp[int](t, store)
		store.set(fails, guard.PhaseRenew)
		call := start(t.Context(), op, "order-1", func(context.Context) (int, error) {
			time.Sleep(40 * time.Second)
			return 0, errors.New("declined")
		})
		time.Sleep(35 * time.Second)
		rival := reserveAs(t, store, "rival")
		if rival.Record.TookOver == nil {
			t.Error("the expired reservation must be taken over")
		}
		<-call
		if got := load(t, store, "order-1").Record; got.Owner.Token != "rival" || got.Status != guard.StatusPending {
			t.Errorf("the rival's record was touched: %+v", got)
		}
	})
}

func TestCase_L5_SameProcessAcquiresAgainWithANewToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store)
		store.set(fails, guard.PhaseRenew)
		older := start(t.Context(), op, "order-1", slow(45*time.Second).act)
		time.Sleep(31 * time.Second)
		newer := start(t.Context(), op, "order-1", func(context.Context) (int, error) {
			time.Sleep(20 * time.Second)
			return 2, nil
		})
		a, b := <-older, <-newer
		if !a.Stale || a.Value != 1 || a.err != nil {
			t.Errorf("the older completion must be refused as stale, and its caller get its own result: %+v", a)
		}
		if b.Stale || b.Fence <= a.Fence {
			t.Errorf("the newer owner must win with a larger fence: %+v after %d", b, a.Fence)
		}
		got := load(t, store, "order-1").Record
		if got.Fence != b.Fence || string(got.Result) != "2" {
			t.Errorf("record: %+v", got)
		}
		if rec.count(guard.EventStale) != 1 {
			t.Error("a stale result must be reported")
		}
	})
}

func TestCase_L2_TwoRenewalErrorsThenSuccessIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store)
		store.set(fails, guard.PhaseRenew)
		call := start(t.Context(), op, "order-1", slow(time.Minute).act)
		time.Sleep(20*time.Second + 300*time.Millisecond) // the renewals at 10 and at 20 s have failed
		store.set(nil, guard.PhaseRenew)
		if r := <-call; r.err != nil || r.Stale {
			t.Errorf("got %+v", r)
		}
		if rec.count(guard.EventLost) != 0 || rec.phase("renew:error") != 2 {
			t.Errorf("lost %d times, phases %q", rec.count(guard.EventLost), rec.phases)
		}
	})
}

func TestCase_L2_AWholeLeaseOfErrorsIsLostReportedExactlyOnce(t *testing.T) {
	for name, f := range map[string]fault{"fails": fails, "hangs": hangs} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			op, rec := newOp[int](t, store)
			store.set(f, guard.PhaseRenew)
			call := start(t.Context(), op, "order-1", slow(2*time.Minute).act)
			time.Sleep(29 * time.Second)
			if rec.count(guard.EventLost) != 0 {
				t.Errorf("%s: lost before the lease was over", name)
			}
			time.Sleep(2500 * time.Millisecond)
			if rec.count(guard.EventLost) != 1 {
				t.Errorf("%s: lost %d times after the lease, want once", name, rec.count(guard.EventLost))
			}
			if r := <-call; r.err != nil || r.Value != 1 {
				t.Errorf("%s: a failing renewal must not change the result: %+v", name, r)
			}
			if rec.count(guard.EventLost) != 1 {
				t.Errorf("%s: lost reported %d times, want exactly once", name, rec.count(guard.EventLost))
			}
		})
	}
}

func TestLease_LateRenewalOfAnUntakenKeyGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, guard.OnInFlight(guard.Refuse))
		store.set(fails, guard.PhaseRenew)
		call := start(t.Context(), op, "order-1", slow(time.Minute).act)
		time.Sleep(35 * time.Second)
		store.set(nil, guard.PhaseRenew)
		time.Sleep(15 * time.Second)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); !errors.Is(err, guard.ErrInProgress) {
			t.Errorf("the late renewal must hold the key again, got %v", err)
		}
		if r := <-call; r.Stale || rec.count(guard.EventLost) != 1 {
			t.Errorf("got %+v, lost %d times", r, rec.count(guard.EventLost))
		}
	})
}

func TestLease_NoRenewalLandsAfterTheActionEnded(t *testing.T) {
	endings := map[string]func() (int, error){
		"returns":  func() (int, error) { return 1, nil },
		"fails":    func() (int, error) { return 0, errors.New("declined") },
		"canceled": func() (int, error) { return 0, context.Canceled },
	}
	for name, ending := range endings {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			op, _ := newOp[int](t, store)
			_, _ = op.Do(t.Context(), "order-1", func(context.Context) (int, error) {
				time.Sleep(35 * time.Second)
				return ending()
			})
			renewals := store.called(guard.PhaseRenew)
			time.Sleep(5 * time.Minute)
			if after := store.called(guard.PhaseRenew); after != renewals || renewals != 3 {
				t.Errorf("%s: %d renewals, %d later; want 3 and no more", name, renewals, after)
			}
		})
	}
}

func TestLease_ARenewalOnTheWireLandsBeforeTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, _ := newOp[int](t, store)
		var landed, replacedFirst atomic.Bool
		store.set(func(ctx context.Context, call func(context.Context) error) error {
			time.Sleep(800 * time.Millisecond)
			err := call(ctx)
			landed.Store(true)
			return err
		}, guard.PhaseRenew)
		store.set(func(ctx context.Context, call func(context.Context) error) error {
			replacedFirst.Store(!landed.Load())
			return call(ctx)
		}, guard.PhaseReplace)
		if _, err := op.Do(t.Context(), "order-1", slow(10*time.Second+400*time.Millisecond).act); err != nil {
			t.Fatal(err)
		}
		if !landed.Load() || replacedFirst.Load() {
			t.Error("the result was written while a renewal was on the wire")
		}
	})
}

func TestLease_AStoreThatIgnoresItsContextDelaysTheResultByOneTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, _ := newOp[int](t, store)
		unblock := make(chan struct{})
		store.set(func(context.Context, func(context.Context) error) error {
			<-unblock
			return errStoreDown
		}, guard.PhaseRenew)
		began := time.Now()
		if _, err := op.Do(t.Context(), "order-1", slow(11*time.Second).act); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 12*time.Second {
			t.Errorf("took %s, want the action's 11 s and one store timeout", took)
		}
		close(unblock)
	})
}

func TestCase_L10_AFailingRenewalNeverEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store)
		store.set(fails, guard.PhaseRenew, guard.PhaseReplace, guard.PhaseRelease)
		r := <-start(t.Context(), op, "order-1", slow(time.Minute).act)
		time.Sleep(lease)
		if r.err != nil || r.Value != 1 {
			t.Errorf("got %+v; want the result", r)
		}
		rec.wantOutcomes(t, guard.OutcomeExecuted)
	})
}
