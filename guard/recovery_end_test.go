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

// TestRecovery_TheEvidenceSurvives what happens to the one that asks.
func TestRecovery_TheEvidenceSurvives(t *testing.T) {
	type scene struct {
		*testing.T
		store *faultyStore
		b     *bureau
		dead  guard.Record
	}
	for name, happens := range map[string]func(*scene){
		"the reply to the takeover is lost": func(s *scene) {
			s.store.set(losesReply, guard.PhaseReserve)
			op, rec := newOp[int](s.T, s.store, s.b.options()...)
			if _, err := op.Do(s.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrStorage) {
				s.Errorf("got %v", err)
			}
			s.store.set(nil, guard.PhaseReserve)
			rec.wantOutcomes(s.T, guard.OutcomeRejected)
		},
		"the one that asks is killed": func(s *scene) {
			die(s.T, s.store.Store, "k", s.b.options(guard.WithRecoveryTimeout(time.Millisecond))...)
		},
		"its caller leaves": func(s *scene) {
			op, rec := newOp[int](s.T, s.store, s.b.options()...)
			ctx, cancel := context.WithTimeout(s.Context(), time.Second)
			defer cancel()
			s.b.set(func(ctx context.Context) (int, guard.Finding, error) { <-ctx.Done(); return 0, guard.NotFound, nil })
			if _, err := op.Do(ctx, "k", new(counter).act); !errors.Is(err, context.DeadlineExceeded) {
				s.Errorf("got %v", err)
			}
			rec.wantOutcomes(s.T, guard.OutcomeCanceled)
		},
		"its caller has left when the store answers": func(s *scene) {
			op, rec := newOp[int](s.T, s.store, s.b.options()...)
			ctx, cancel := context.WithCancel(s.Context())
			s.store.set(func(ctx context.Context, call func(context.Context) error) error {
				err := call(ctx)
				cancel()
				return err
			}, guard.PhaseReserve)
			if _, err := op.Do(ctx, "k", new(counter).act); !errors.Is(err, context.Canceled) {
				s.Errorf("got %v", err)
			}
			s.store.set(nil, guard.PhaseReserve)
			rec.wantOutcomes(s.T, guard.OutcomeCanceled)
		},
		"the store is down when nothing was found": func(s *scene) {
			op, rec := newOp[int](s.T, s.store, s.b.options()...)
			s.b.set(says(0, guard.NotFound, nil))
			s.store.set(fails, guard.PhaseRenew)
			if _, err := op.Do(s.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrStorage) {
				s.Errorf("got %v, want a storage error: the action must not run", err)
			}
			s.store.set(nil, guard.PhaseRenew)
			rec.wantOutcomes(s.T, guard.OutcomeRejected)
		},
		"what it found does not encode": func(s *scene) {
			store, opts := s.store, []guard.OperationOption{guard.WithMaxResultBytes(1)}
			op, _ := newOp[int](s.T, store, s.b.options(opts...)...)
			s.b.set(says(4711, guard.Found, nil))
			if got, err := op.Do(s.Context(), "k", new(counter).act); got != 4711 || err != nil {
				s.Errorf("got %d, %v", got, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{T: t, store: newFaultyStore(), b: asking(says(0, guard.CannotTell, nil))}
				s.dead = die(t, s.store.Store, "k", s.b.options()...)
				happens(s)
				time.Sleep(2 * guard.DefaultLease)
				got := load(t, s.store, "k").Record
				if got.Dispatch == nil || got.Dispatch.Owner != s.dead.Owner || got.Dispatch.Fence != s.dead.Fence {
					t.Fatalf("the key has %s with %+v, want the evidence of %+v", got.Status, got.Dispatch, s.dead)
				}
				s.b.set(says(42, guard.Found, nil))
				op, _ := newOp[int](t, s.store, s.b.options()...)
				var c counter
				if got, err := op.Do(t.Context(), "k", c.act); got != 42 || err != nil || c.count() != 0 {
					t.Errorf("then %d, %v after %d runs", got, err, c.count())
				}
			})
		})
	}
}

func TestRecovery_AnOwnerThatWakesUpAfterItIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := newFaultyStore(), asking(says(42, guard.Found, nil))
		op, rec := newOp[int](t, store, b.options()...)
		store.set(fails, guard.PhaseRenew)
		got, err := op.DoResult(t.Context(), "k", func(context.Context) (int, error) {
			time.Sleep(guard.DefaultLease)
			if got, err := op.Do(t.Context(), "k", new(counter).act); got != 42 || err != nil {
				t.Errorf("%d, %v", got, err)
			}
			return 42, nil
		})
		if err != nil || !got.Stale {
			t.Errorf("%+v, %v, want its own result, flagged", got, err)
		}
		rec.wantOutcomes(t, guard.OutcomeRecovered, guard.OutcomeExecuted)
	})
}

func TestRecovery_AnOperationWithoutAHookDoesNotTakeOverDispatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := guard.NewMemoryStore(), asking(says(42, guard.Found, nil))
		die(t, store, "k", b.options()...)
		op, _ := newOp[int](t, store) // such as a release that has lost its options
		var c counter
		if _, err := op.Do(t.Context(), "k", c.act); !errors.Is(err, guard.ErrOutcomeUnknown) || c.count() != 0 {
			t.Errorf("got %v after %d runs", err, c.count())
		}
	})
}

func TestRecovery_NothingRunsWhenTheKeyIsTakenFromTheOneThatAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		b := asking(says(0, guard.NotFound, nil))
		die(t, store, "k", b.options()...)
		var once sync.Once
		b.set(func(context.Context) (int, guard.Finding, error) {
			once.Do(func() { // the store loses everything, and somebody else takes the key
				store.Clear()
				abandon(t, store, "k", b.options()...)
			})
			return 0, guard.NotFound, nil
		})
		op, rec := newOp[int](t, store, b.options()...)
		var c counter
		if _, err := op.Do(t.Context(), "k", c.act); !errors.Is(err, guard.ErrInProgress) || c.count() != 0 {
			t.Errorf("got %v after %d runs", err, c.count())
		}
		rec.wantOutcomes(t, guard.OutcomeRefused)
		rec.wantReason(t, guard.EventHeld) // it is not this call's to hold
	})
}

func TestRecovery_ACallerThatLeavesWhileTheEvidenceIsCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := newFaultyStore(), asking(says(0, guard.NotFound, nil))
		die(t, store.Store, "k", b.options()...)
		op, rec := newOp[int](t, store, b.options()...)
		store.set(hangs, guard.PhaseRenew)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var c counter
		start := time.Now()
		if _, err := op.Do(ctx, "k", c.act); !errors.Is(err, context.DeadlineExceeded) || c.count() != 0 {
			t.Errorf("got %v after %d runs", err, c.count())
		}
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("it took %s, longer than its caller had time", took)
		}
		rec.wantOutcomes(t, guard.OutcomeCanceled)
		time.Sleep(2 * guard.DefaultStoreTimeout)
		if got := load(t, store, "k").Record; got.Status != guard.StatusHeld {
			t.Errorf("the key is %s, want held", got.Status)
		}
	})
}
