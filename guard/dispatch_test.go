package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func TestMarkDispatch_ACrashBeforeTheMarkIsSafeToRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		opts := atMostOnce(guard.MarkDispatch())
		die(t, store, "k", opts...)
		op, _ := newOp[int](t, store, opts...)
		if got, err := op.Do(t.Context(), "k", new(counter).act); got != 1 || err != nil {
			t.Errorf("%d, %v, want a run: nothing was sent", got, err)
		}
	})
}

func TestMarkDispatch_FromTheMarkOnTheRecordSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, atMostOnce(guard.MarkDispatch())...)
		_, err := op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			time.Sleep(time.Second)
			if got := load(t, store, "k").Record; got.Dispatch != nil {
				t.Errorf("dispatched before the mark: %+v", got.Dispatch)
			}
			marked := time.Now()
			for range 3 {
				if err := guard.Dispatched(ctx); err != nil {
					t.Error(err)
				}
			}
			got := load(t, store, "k").Record
			if got.Dispatch == nil || got.Dispatch.Owner != got.Owner || got.Dispatch.Fence != got.Fence || !got.Dispatch.At.Equal(marked) {
				t.Errorf("after the mark the record has %+v", got.Dispatch)
			}
			time.Sleep(2 * guard.DefaultLease) // the renewals keep it
			if again := load(t, store, "k").Record; again.Dispatch == nil || *again.Dispatch != *got.Dispatch {
				t.Errorf("later it has %+v", again.Dispatch)
			}
			return 1, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		rec.wantOutcomes(t, guard.OutcomeExecuted)
		if got := load(t, store, "k").Record; got.Status != guard.StatusCompleted || got.Dispatch != nil {
			t.Errorf("in the end: %s, %+v", got.Status, got.Dispatch)
		}
	})
}

func TestMarkDispatch_CostsOneCallOfTheStore(t *testing.T) {
	store := newFaultyStore()
	op, _ := newOp[int](t, store, atMostOnce(guard.MarkDispatch())...)
	_, err := op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
		for range 3 {
			if err := guard.Dispatched(ctx); err != nil {
				t.Error(err)
			}
		}
		return 1, nil
	})
	if n := store.called(guard.PhaseRenew); err != nil || n != 1 {
		t.Errorf("%v, %d renewals, want 1", err, n)
	}
}

// TestDispatched_NilOnlyOnTheStoresWord: an action that obeys leaves a free key.
func TestDispatched_NilOnlyOnTheStoresWord(t *testing.T) {
	for name, f := range map[string]fault{"fails": fails, "hangs": hangs, "loses the reply": losesReply} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				op, _ := newOp[int](t, store, atMostOnce(guard.MarkDispatch())...)
				_, err := op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
					store.set(f, guard.PhaseRenew)
					err := guard.Dispatched(ctx)
					if !errors.Is(err, guard.ErrNotDispatched) {
						t.Errorf("got %v", err)
					}
					if f := name; f != "hangs" && !errors.Is(err, errStoreDown) {
						t.Errorf("got %v, want the store's error in it", err)
					}
					return 0, err
				})
				if !errors.Is(err, guard.ErrNotDispatched) {
					t.Error(err)
				}
				if got := load(t, store, "k").Record.Status; got != guard.StatusReleased {
					t.Errorf("the key is %s, want released: nothing was sent", got)
				}
			})
		})
	}
}

func TestDispatched_AnActionThatTriesAgainIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, _ := newOp[int](t, store, atMostOnce(guard.MarkDispatch())...)
		store.set(fails, guard.PhaseRenew)
		_, err := op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			if err := guard.Dispatched(ctx); err == nil {
				t.Error("marked by a store that is down")
			}
			store.set(nil, guard.PhaseRenew)
			if err := guard.Dispatched(ctx); err != nil {
				t.Error(err)
			}
			return 0, errAmbiguous
		})
		if got := load(t, store, "k").Record.Status; got != guard.StatusHeld || !errors.Is(err, errAmbiguous) {
			t.Errorf("%v, and the key is %s, want held", err, got)
		}
	})
}

// TestDispatched_AnUnconfirmedMarkCounts for an action that fails in another way.
func TestDispatched_AnUnconfirmedMarkCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, _ := newOp[int](t, store, atMostOnce(guard.MarkDispatch())...)
		_, _ = op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			store.set(losesReply, guard.PhaseRenew)
			_ = guard.Dispatched(ctx)
			return 0, errAmbiguous
		})
		if got := load(t, store, "k").Record.Status; got != guard.StatusHeld {
			t.Errorf("the key is %s, want held", got)
		}
	})
}

func TestDispatched_AfterTheLeaseIsLost(t *testing.T) {
	for name, more := range map[string][]guard.OperationOption{"marked by the action": {guard.MarkDispatch()}, "from the reserve on": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				op, _ := newOp[int](t, store, atMostOnce(more...)...)
				_, err := op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
					store.Store.(*guard.MemoryStore).Clear()
					abandon(t, store.Store, "k", atMostOnce()...)
					time.Sleep(guard.DefaultLease / 2)
					return 0, guard.Dispatched(ctx)
				})
				if !errors.Is(err, guard.ErrLeaseLost) || !errors.Is(err, guard.ErrNotDispatched) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestDispatched_WhereThereIsNothingToMark(t *testing.T) {
	if err := guard.Dispatched(t.Context()); !errors.Is(err, guard.ErrNotDispatched) {
		t.Errorf("outside of an action: %v", err)
	}
	plain, _ := newOp[int](t, guard.NewMemoryStore())
	if _, err := plain.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
		return 0, guard.Dispatched(ctx)
	}); !errors.Is(err, guard.ErrNotDispatched) {
		t.Errorf("in an operation that has no use for it: %v", err)
	}
	off, _ := newOp[int](t, guard.NewMemoryStore(), atMostOnce(guard.MarkDispatch(), guard.WithEnabled(func() bool { return false }))...)
	if _, err := off.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
		return 0, guard.Dispatched(ctx)
	}); err != nil {
		t.Errorf("with the kill switch off, when calls are to run: %v", err)
	}
	store := newFaultyStore()
	store.set(fails, guard.PhaseReserve)
	open, _ := newOp[int](t, store)
	if _, err := open.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
		return 0, guard.Dispatched(ctx)
	}); !errors.Is(err, guard.ErrNotDispatched) {
		t.Errorf("unguarded: %v", err)
	}
	var late context.Context
	op, _ := newOp[int](t, guard.NewMemoryStore(), atMostOnce()...)
	if _, err := op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
		late = ctx //nolint:fatcontext // it is kept on purpose
		return 0, guard.Dispatched(ctx)
	}); err != nil {
		t.Errorf("from the reservation on: %v", err)
	}
	if err := guard.Dispatched(late); !errors.Is(err, guard.ErrNotDispatched) {
		t.Errorf("after the action: %v", err)
	}
}

func TestMarkDispatch_WithAHookAsksOnlyAboutMarkedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := guard.NewMemoryStore(), asking(says(0, guard.NotFound, nil))
		opts := b.options(guard.MarkDispatch())
		die(t, store, "k", opts...)
		op, _ := newOp[int](t, store, opts...)
		fail := func(mark bool) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				if mark {
					if err := guard.Dispatched(ctx); err != nil {
						t.Error(err)
					}
				}
				return 0, errAmbiguous
			}
		}
		_, _ = op.Do(t.Context(), "k", fail(true))
		if b.count() != 0 {
			t.Error("asked about a run that was not marked")
		}
		time.Sleep(guard.DefaultLease)
		// Nothing found clears the evidence; the run that follows has marked nothing.
		_, _ = op.Do(t.Context(), "k", fail(false))
		if got := load(t, store, "k").Record; b.count() != 1 || got.Status != guard.StatusReleased {
			t.Errorf("asked %d times, the key is %s with %+v, want released", b.count(), got.Status, got.Dispatch)
		}
	})
}

func TestFence_FromTheContextOfAnAction(t *testing.T) {
	if _, ok := guard.FenceFromContext(t.Context()); ok {
		t.Error("a fence outside of an action")
	}
	op, _ := newOp[int64](t, guard.NewMemoryStore())
	got, err := op.DoResult(t.Context(), "k", func(ctx context.Context) (int64, error) {
		fence, ok := guard.FenceFromContext(ctx)
		if !ok {
			t.Error("no fence")
		}
		return fence, nil
	})
	if err != nil || got.Value != got.Fence || got.Fence == 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDispatched_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, _ := newOp[int](t, store, atMostOnce(guard.MarkDispatch())...)
		store.set(hangs, guard.PhaseRenew)
		_, err := op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			bounded, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := guard.Dispatched(bounded)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 200*time.Millisecond {
				t.Errorf("got %v after %s", err, time.Since(start))
			}
			// The renewer is still at the mark before it.
			if err := guard.Dispatched(bounded); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			return 0, err
		})
		if !errors.Is(err, guard.ErrNotDispatched) {
			t.Error(err)
		}
	})
}

func TestDispatched_WhenTheStoreSaysThatTheKeyIsAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, atMostOnce(guard.MarkDispatch())...)
		_, err := op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			store.Store.(*guard.MemoryStore).Clear()
			abandon(t, store.Store, "k", atMostOnce()...)
			return 0, guard.Dispatched(ctx)
		})
		if !errors.Is(err, guard.ErrLeaseLost) {
			t.Errorf("got %v", err)
		}
		rec.wantReason(t, guard.EventLost, guard.ReasonTaken)
	})
}
