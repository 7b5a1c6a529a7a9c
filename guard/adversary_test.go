package guard_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// What an unlucky order of events must not do to an effect that may have happened.

// TestAtMostOnce_ABlipHoldsNothingThatNeverRan: the reserve is applied, and neither its
// reply nor the release comes through.
func TestAtMostOnce_ABlipHoldsNothingThatNeverRan(t *testing.T) {
	late := func(ctx context.Context, call func(context.Context) error) error {
		<-ctx.Done()
		_ = call(context.WithoutCancel(ctx)) // it lands when its caller has given up
		return ctx.Err()
	}
	for name, f := range map[string]fault{"the reply is lost": losesReply, "the server stood still": late} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				op, rec := newOp[int](t, store, atMostOnce()...)
				store.set(f, guard.PhaseReserve)
				store.set(hangs, guard.PhaseRelease)
				var c counter
				if _, err := op.Do(t.Context(), "k", c.act); !errors.Is(err, guard.ErrStorage) {
					t.Fatal(err)
				}
				time.Sleep(2 * guard.DefaultLease)
				store.set(nil, guard.PhaseReserve, guard.PhaseRelease)
				time.Sleep(10 * time.Second)
				if _, err := op.Do(t.Context(), "k", c.act); err != nil {
					t.Errorf("got %v: nothing has run", err)
				}
				rec.wantOutcomes(t, guard.OutcomeRejected, guard.OutcomeExecuted)
			})
		})
	}
}

// slowToEncode is a codec that takes its time and fails.
type slowToEncode struct{ guard.Codec }

func (slowToEncode) Marshal(any) ([]byte, error) {
	time.Sleep(time.Second)
	return nil, errStoreDown
}

// TestDispatched_IsTooLateOnceTheActionHasComeBack: a goroutine that it left behind is
// not told to go on while the key's fate is decided.
func TestDispatched_IsTooLateOnceTheActionHasComeBack(t *testing.T) {
	slow := func(error, bool) guard.Disposition {
		time.Sleep(time.Second)
		return guard.Undecided
	}
	for name, c := range map[string]struct {
		opt guard.OperationOption
		err error
	}{
		"in the policy": {guard.OnFailure(slow), errAmbiguous},
		"in the codec":  {guard.WithCodec(slowToEncode{guard.JSON()}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := guard.NewMemoryStore()
				op, _ := newOp[int](t, store, atMostOnce(guard.MarkDispatch(), c.opt)...)
				var left sync.WaitGroup
				var said error
				_, _ = op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
					left.Go(func() {
						time.Sleep(500 * time.Millisecond)
						said = guard.Dispatched(ctx)
					})
					return 0, c.err
				})
				left.Wait()
				if got := load(t, store, "k").Record.Status; !errors.Is(said, guard.ErrNotDispatched) || got != guard.StatusReleased {
					t.Errorf("the goroutine was told %v, the key is %s", said, got)
				}
			})
		})
	}
}

// stalls is an observer that stops the renewer, as a process that stands still does.
type stalls struct{ *recorder }

func (s stalls) Operation(guard.OperationInfo) guard.OperationObserver { return s }

func (s stalls) Call(ctx context.Context, _ guard.CallInfo) (context.Context, guard.CallObserver) {
	return ctx, s
}

func (s stalls) Phase(ctx context.Context, p guard.Phase) (context.Context, guard.PhaseObserver) {
	if p == guard.PhaseRenew {
		time.Sleep(5 * guard.DefaultLease)
	}
	return s.recorder.Phase(ctx, p)
}

func TestDispatched_AfterAStandstillItAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := guard.NewMemoryStore(), asking(says(0, guard.NotFound, nil))
		g, err := guard.New(store, guard.WithObserver(stalls{&recorder{}}))
		if err != nil {
			t.Fatal(err)
		}
		op, err := guard.NewOperation[int](g, "payment.charge", b.options()...)
		if err != nil {
			t.Fatal(err)
		}
		other, _ := newOp[int](t, store, b.options()...)
		_, err = op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			time.Sleep(2 * guard.DefaultLease)
			if got, err := other.Do(t.Context(), "k", new(counter).act); got != 1 || err != nil {
				t.Errorf("the next call got %d, %v", got, err)
			}
			return 0, guard.Dispatched(ctx)
		})
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("got %v", err)
		}
	})
}

// TestDispatched_AnActionThatOnlyEverHeardNoLeavesAFreeKey if it is one that asks before
// it sends anything. Where the run is dispatched from its reservation on it need not
// have asked before its first request.
func TestDispatched_AnActionThatOnlyEverHeardNoLeavesAFreeKey(t *testing.T) {
	for name, c := range map[string]struct {
		opts []guard.OperationOption
		want guard.Status
	}{
		"marked by the action": {atMostOnce(guard.MarkDispatch()), guard.StatusReleased},
		"from the reserve on":  {atMostOnce(), guard.StatusHeld},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				op, _ := newOp[int](t, store, c.opts...)
				store.set(fails, guard.PhaseRenew)
				_, err := op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
					time.Sleep(guard.DefaultLease + time.Second)
					return 0, guard.Dispatched(ctx)
				})
				if got := load(t, store, "k").Record.Status; got != c.want || !errors.Is(err, guard.ErrNotDispatched) {
					t.Errorf("got %v, the key is %s, want %s", err, got, c.want)
				}
			})
		})
	}
}

// TestDispatched_OnceToldYesItIsNeverReleased on the strength of another refusal.
func TestDispatched_OnceToldYesItIsNeverReleased(t *testing.T) {
	for range 2000 {
		store := guard.NewMemoryStore()
		op, _ := newOp[int](t, store, atMostOnce(guard.MarkDispatch())...)
		var said atomic.Bool
		var left sync.WaitGroup
		_, _ = op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			gone, cancel := context.WithCancel(ctx)
			cancel()
			err := guard.Dispatched(gone)
			if err == nil { // the renewer was quicker
				err = errAmbiguous
			}
			started := make(chan struct{})
			left.Go(func() {
				close(started)
				said.Store(guard.Dispatched(ctx) == nil)
			})
			<-started
			runtime.Gosched()
			return 0, err
		})
		left.Wait()
		if got := load(t, store, "k").Record.Status; said.Load() && got != guard.StatusHeld {
			t.Fatalf("told to go on, and the key is %s", got)
		}
	}
}

// TestErase_StaysErasedForAResultThatIsTriedForLong: the store has it, and its owner does
// not know.
func TestErase_StaysErasedForAResultThatIsTriedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		memory := store.Store.(*guard.MemoryStore)
		op, _ := newOp[int](t, store, atMostOnce()...)
		direct, _ := newOp[int](t, memory, atMostOnce()...)
		store.set(losesReply, guard.PhaseReplace)
		if _, err := op.Do(t.Context(), "k", new(counter).act); err != nil {
			t.Fatal(err)
		}
		store.set(fails, guard.PhaseReplace)
		if err := direct.Erase(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(guard.DefaultLease + time.Second)
		store.set(nil, guard.PhaseReplace)
		time.Sleep(guard.DefaultLease)
		if got := load(t, store, "k").Record; got.Status == guard.StatusCompleted {
			t.Error("the result is back")
		}
	})
}

// TestRecovery_NothingFoundAndNoReplyLeavesAFreeKey: this call has not run, and what it
// asked about has not happened.
func TestRecovery_NothingFoundAndNoReplyLeavesAFreeKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := newFaultyStore(), asking(says(0, guard.NotFound, nil))
		die(t, store.Store, "k", b.options()...)
		op, rec := newOp[int](t, store, b.options()...)
		store.set(losesReply, guard.PhaseRenew)
		if _, err := op.Do(t.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrStorage) {
			t.Fatal(err)
		}
		if got := load(t, store, "k").Record.Status; got != guard.StatusReleased {
			t.Errorf("the key is %s, want released", got)
		}
		rec.wantReason(t, guard.EventHeld)
	})
}

func TestDispatched_PastTheMaxHoldItIsNoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore(), atMostOnce(guard.MarkDispatch(), guard.WithMaxHold(time.Second))...)
		_, _ = op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			for _, after := range []time.Duration{2 * time.Second, 10 * time.Second} {
				time.Sleep(after)
				start := time.Now()
				if err := guard.Dispatched(ctx); time.Since(start) > 9*time.Second || err == nil && time.Since(start) > 0 {
					t.Errorf("got %v after %s", err, time.Since(start))
				}
			}
			if n := rec.count(guard.EventLost); n != 0 {
				t.Error("the loss was told before the lease was over")
			}
			time.Sleep(2 * guard.DefaultLease)
			return 0, nil
		})
		rec.wantReason(t, guard.EventLost, guard.ReasonMaxHold)
	})
}

// TestRecovery_TheOwnersWordCountsWhileAnotherOnlyAsks: its action has not run again.
func TestRecovery_TheOwnersWordCountsWhileAnotherOnlyAsks(t *testing.T) {
	policy := guard.OnFailure(func(err error, _ bool) guard.Disposition {
		if errors.Is(err, errDeclined) {
			return guard.Remember
		}
		return guard.Release
	})
	for name, c := range map[string]struct {
		err   error
		want  guard.Status
		asker guard.Outcome // of the call that asks
	}{
		"a result":   {nil, guard.StatusCompleted, guard.OutcomeReplayed},
		"a refusal":  {errDeclined, guard.StatusFailed, guard.OutcomeReplayed},
		"no success": {errStoreDown, guard.StatusReleased, guard.OutcomeRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, asked := newFaultyStore(), make(chan struct{})
				b := asking(func(context.Context) (int, guard.Finding, error) {
					close(asked)
					time.Sleep(time.Second)
					return 0, guard.CannotTell, nil
				})
				op, rec := newOp[int](t, store, b.options(policy)...)
				store.set(fails, guard.PhaseRenew)
				var all sync.WaitGroup
				got, err := op.DoResult(t.Context(), "k", func(context.Context) (int, error) {
					time.Sleep(guard.DefaultLease)
					all.Go(func() {
						got, err := op.DoResult(t.Context(), "k", new(counter).act)
						if got.How != c.asker || c.err == nil && (got.Value != 7 || err != nil) || c.err != nil && err == nil {
							t.Errorf("who asked got %+v, %v, want %s", got, err, c.asker)
						}
					})
					<-asked
					store.set(nil, guard.PhaseRenew)
					return 7, c.err
				})
				all.Wait()
				if !errors.Is(err, c.err) || got.Stale || rec.count(guard.EventStale) != 0 {
					t.Errorf("%+v, %v", got, err)
				}
				if rec := load(t, store, "k").Record; rec.Status != c.want {
					t.Errorf("the key is %s, want %s", rec.Status, c.want)
				}
			})
		})
	}
}

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
