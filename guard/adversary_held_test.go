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

// TestHold_ThatIsRepeatedLateUndoesNothing: its reply was lost, and the key has been
// settled since.
func TestHold_ThatIsRepeatedLateUndoesNothing(t *testing.T) {
	settled := map[string]func(t *testing.T, op *guard.Operation[int], b *bureau, fence int64){
		"by an operator": func(t *testing.T, op *guard.Operation[int], _ *bureau, fence int64) {
			t.Helper()
			if err := op.Resolve(t.Context(), "k", guard.Resolution[int]{Fence: fence, As: guard.StatusReleased}); err != nil {
				t.Fatal(err)
			}
		},
		"by the next run": func(t *testing.T, op *guard.Operation[int], b *bureau, _ int64) {
			t.Helper()
			b.set(says(0, guard.NotFound, nil))
			if _, err := op.Do(t.Context(), "k", func(context.Context) (int, error) { return 0, errDeclined }); !errors.Is(err, errDeclined) {
				t.Fatal(err)
			}
		},
	}
	for who, settle := range settled {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, b := newFaultyStore(), asking(says(0, guard.CannotTell, nil))
				opts := b.options(guard.WithSettleTime(0), guard.OnFailure(func(error, bool) guard.Disposition { return guard.Release }))
				die(t, store.Store, "k", opts...)
				op, _ := newOp[int](t, store, opts...)
				direct, _ := newOp[int](t, store.Store, opts...)
				store.set(losesReply, phaseHold)
				if _, err := op.Do(t.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				store.set(fails, phaseHold)
				settle(t, direct, b, load(t, store, "k").Record.Fence)
				store.set(nil, phaseHold)
				time.Sleep(5 * time.Second)
				if got := load(t, store, "k").Record; got.Status != guard.StatusReleased {
					t.Errorf("the key is %s again", got.Status)
				}
			})
		})
	}
}

// TestHold_IsToldRatherTwiceThanNever: that it was held already may be by a try whose
// reply was lost.
func TestHold_IsToldRatherTwiceThanNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, atMostOnce()...)
		store.set(fails, guard.PhaseRenew)
		_, _ = op.Do(t.Context(), "k", func(context.Context) (int, error) {
			time.Sleep(guard.DefaultLease + time.Second)
			_, _ = op.Do(t.Context(), "k", new(counter).act)
			return 0, errAmbiguous
		})
		rec.wantReason(t, guard.EventHeld, guard.ReasonAbandoned, guard.ReasonDispatched)
	})
}

// TestAtMostOnce_AnOutageLongerThanTheLeaseLosesNoWord: nobody runs over a dispatched
// record, so there is time.
func TestAtMostOnce_AnOutageLongerThanTheLeaseLosesNoWord(t *testing.T) {
	release := guard.OnFailure(func(error, bool) guard.Disposition { return guard.Release })
	for name, fail := range map[string]error{"a result": nil, "a release": errStoreDown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				op, _ := newOp[int](t, store, atMostOnce(release)...)
				down := []guard.Phase{guard.PhaseReserve, guard.PhaseRenew, guard.PhaseReplace, guard.PhaseRelease}
				_, _ = op.Do(t.Context(), "k", func(context.Context) (int, error) {
					store.set(fails, down...)
					time.Sleep(guard.DefaultLease + time.Second)
					return 7, fail
				})
				time.Sleep(guard.DefaultLease)
				store.set(nil, down...)
				time.Sleep(5 * time.Second)
				want := 7
				if fail != nil {
					want = 1
				}
				if got, err := op.Do(t.Context(), "k", new(counter).act); got != want || err != nil {
					t.Errorf("got %d, %v, want %d", got, err, want)
				}
			})
		})
	}
}

func TestRecovery_ALeaseLostInTheHookIsNoCallerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		b := asking(func(ctx context.Context) (int, guard.Finding, error) {
			<-ctx.Done()
			return 0, guard.CannotTell, ctx.Err()
		})
		opts := b.options(guard.WithCancelOnLost(), guard.WithRecoveryTimeout(time.Hour))
		die(t, store.Store, "k", opts...)
		op, rec := newOp[int](t, store, opts...)
		store.set(fails, guard.PhaseRenew)
		_, err := op.Do(t.Context(), "k", new(counter).act)
		if !errors.Is(err, guard.ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
		rec.wantOutcomes(t, guard.OutcomeUnknown)
	})
}

// TestRecovery_TheFingerprintIsThatOfTheRunInQuestion, not of the call that asks.
func TestRecovery_TheFingerprintIsThatOfTheRunInQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := guard.NewMemoryStore(), asking(says(0, guard.CannotTell, nil))
		die(t, store, "k", b.options()...) // it gave no input
		op, _ := newOp[int](t, store, b.options(guard.WithSettleTime(0))...)
		_, _ = op.Do(t.Context(), "k", new(counter).act, guard.WithInput("twelve euros, by mistake"))
		if got := b.asked[0].Fingerprint; got != (guard.Fingerprint{}) {
			t.Errorf("the hook was told %v", got)
		}
		if _, err := op.Do(t.Context(), "k", new(counter).act, guard.WithInput("ten euros")); !errors.Is(err, guard.ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
		b.set(says(0, guard.NotFound, nil))
		fail := func(context.Context) (int, error) { return 0, errAmbiguous }
		if _, err := op.Do(t.Context(), "k", fail, guard.WithInput("ten euros")); !errors.Is(err, errAmbiguous) {
			t.Fatal(err)
		}
		if _, err := op.Do(t.Context(), "k", fail, guard.WithInput("twelve")); !errors.Is(err, guard.ErrMismatch) {
			t.Errorf("got %v: the run in question has had ten", err)
		}
	})
}

func TestResolve_RefusesWhatContradictsItself(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore(), atMostOnce(guard.WithHashedKeys(), guard.WithCipher(reverse{}))...)
	for want, r := range map[string]guard.Resolution[int]{
		"an Err goes with":  {Fence: 1, As: guard.StatusCompleted, Value: 1, Err: errDeclined},
		"a Value goes with": {Fence: 1, As: guard.StatusReleased, Value: 1},
		"the plain key":     {Fence: 1, As: guard.StatusCompleted, Value: 1, Hashed: true},
	} {
		if err := op.Resolve(t.Context(), "k", r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestResolve_ReleasedStaysReleasedForALateOwner: its failure must not block the key.
func TestResolve_ReleasedStaysReleasedForALateOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, _ := newOp[int](t, store, atMostOnce()...)
		_, _ = op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			fence, _ := guard.FenceFromContext(ctx)
			if err := op.Resolve(t.Context(), "k", guard.Resolution[int]{Fence: fence, As: guard.StatusReleased, Live: true}); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * guard.DefaultLease)
			return 0, errAmbiguous
		})
		if got, err := op.Do(t.Context(), "k", new(counter).act); got != 1 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	})
}

// TestRun_DoesNotRunBesideWhatNobodyKnowsTheEndOf: it is the evidence that counts.
func TestRun_DoesNotRunBesideWhatNobodyKnowsTheEndOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		die(t, store, "k", atMostOnce()...)
		op, _ := newOp[int](t, store, guard.OnInFlight(guard.Run))
		var c counter
		if _, err := op.Do(t.Context(), "k", c.act); !errors.Is(err, guard.ErrOutcomeUnknown) || c.count() != 0 {
			t.Errorf("got %v after %d runs", err, c.count())
		}
	})
}

// TestAtMostOnce_AStoreThatIsDownLeavesNoPile of goroutines, and nothing for Drain.
func TestAtMostOnce_AStoreThatIsDownLeavesNoPile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		store.set(fails, guard.PhaseReserve, guard.PhaseRelease)
		g, err := guard.New(store)
		if err != nil {
			t.Fatal(err)
		}
		op, err := guard.NewOperation[int](g, "payment.charge", atMostOnce()...)
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		for range 1000 {
			if _, err := op.Do(t.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrStorage) {
				t.Fatal(err)
			}
		}
		if n := runtime.NumGoroutine() - before; n > 300 {
			t.Errorf("%d goroutines are left", n)
		}
		start := time.Now()
		if err := g.Drain(t.Context()); err != nil || time.Since(start) > 0 {
			t.Errorf("drained after %s: %v", time.Since(start), err)
		}
		time.Sleep(2 * guard.DefaultStoreTimeout) // then they have ended
	})
}

// TestDispatched_AnActionThatDisobeysIsHeld: it was told no, and fails in another way.
func TestDispatched_AnActionThatDisobeysIsHeld(t *testing.T) {
	store := guard.NewMemoryStore()
	op, _ := newOp[int](t, store, atMostOnce(guard.MarkDispatch())...)
	_, _ = op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if err := guard.Dispatched(gone); !errors.Is(err, guard.ErrNotDispatched) {
			t.Errorf("got %v", err)
		}
		return 0, errAmbiguous
	})
	if got := load(t, store, "k").Record.Status; got != guard.StatusHeld {
		t.Errorf("the key is %s, want held", got)
	}
}

func TestResolve_TheSameIDWithAnotherWordIsRefused(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore(), atMostOnce()...)
	fence := heldKey(t, op, "k")
	if err := op.Resolve(t.Context(), "k", guard.Resolution[int]{Fence: fence, As: guard.StatusReleased, ID: "r"}); err != nil {
		t.Fatal(err)
	}
	err := op.Resolve(t.Context(), "k", guard.Resolution[int]{Fence: fence, As: guard.StatusCompleted, Value: 1, ID: "r"})
	if !errors.Is(err, guard.ErrNotResolved) {
		t.Errorf("got %v: nothing was stored", err)
	}
}

// TestList_TheAgeIsThatOfTheEffect that may have happened, however often it was asked about.
func TestList_TheAgeIsThatOfTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := guard.NewMemoryStore(), asking(says(0, guard.CannotTell, nil))
		die(t, store, "asked", b.options()...)
		die(t, store, "abandoned", b.options()...)
		op, _ := newOp[int](t, store, b.options()...)
		time.Sleep(24 * time.Hour)
		_, _ = op.Do(t.Context(), "asked", new(counter).act)
		g, err := guard.New(store)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for key, err := range g.List(t.Context(), guard.ListQuery{}) {
			if n++; err != nil || key.Age < 24*time.Hour || key.Age > 25*time.Hour {
				t.Errorf("%s: age %s, %v", key.Key.Name, key.Age, err)
			}
		}
		if n != 2 {
			t.Errorf("%d keys, want 2", n)
		}
	})
}
