package guard_test

import (
	"context"
	"errors"
	"runtime"
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
