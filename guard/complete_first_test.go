package guard_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// padding is a cipher that makes other bytes each time.
type padding struct{}

func (padding) Name() string { return "padding" }
func (padding) Encrypt(_ guard.Key, b []byte) ([]byte, error) {
	return append([]byte(rand.Text()[:8]), b...), nil
}
func (padding) Decrypt(_ guard.Key, b []byte) ([]byte, error) { return b[8:], nil }

// Two who approve click differently.
func TestComplete_TheFirstOneCounts(t *testing.T) {
	for name, options := range map[string][]guard.OperationOption{
		"plain": nil, "encrypted": {guard.WithCipher(padding{})}, "hashed": {guard.WithHashedKeys()},
	} {
		t.Run(name, func(t *testing.T) {
			op, rec := newOp[string](t, guard.NewMemoryStore(), append(options, keepsForAnHour())...)
			r := leave(t, op)
			for range 2 { // the answer to the first may have been lost
				if err := op.Complete(t.Context(), r, "yes", nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := op.Complete(t.Context(), r, "no", nil); !errors.Is(err, guard.ErrStale) {
				t.Errorf("another value: %v, want ErrStale", err)
			}
			if err := op.Complete(t.Context(), r, "", errors.New("declined")); !errors.Is(err, guard.ErrStale) {
				t.Errorf("an error after it: %v, want ErrStale", err)
			}
			wantDo(t, op, "no", "yes")
			if n := rec.count(guard.EventStale); n != 0 {
				t.Errorf("told of %d double runs", n)
			}
			rec.wantOutcomes(t, guard.OutcomePending, guard.OutcomeExecuted, guard.OutcomeReplayed,
				guard.OutcomeRejected, guard.OutcomeRejected, guard.OutcomeReplayed)
		})
	}
}

func TestComplete_TheFirstErrorThatIsRememberedCounts(t *testing.T) {
	declined := errors.New("declined")
	op, _ := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour(), guard.WithErrorCodec(guard.NamedErrors(map[string]error{"declined": declined})),
		guard.OnFailure(func(error, bool) guard.Disposition { return guard.Remember }))
	r := leave(t, op)
	for range 2 {
		if err := op.Complete(t.Context(), r, "", declined); err != nil {
			t.Fatal(err)
		}
	}
	if err := op.Complete(t.Context(), r, "yes", nil); !errors.Is(err, guard.ErrStale) {
		t.Errorf("a value after it: %v, want ErrStale", err)
	}
	if _, err := op.Do(t.Context(), "order-1", func(context.Context) (string, error) { return "again", nil }); !errors.Is(err, declined) {
		t.Errorf("got %v, want the error that is remembered", err)
	}
}

// A renewal comes between the completion and the end of the action, whose own value is not the
// one that others have by then.
func TestComplete_WhileTheActionRunsIsNoLossAndItsResultCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour(), guard.WithLease(3*time.Second))
		got, err := op.DoResult(t.Context(), "order-1", func(ctx context.Context) (string, error) {
			r, _ := guard.ReservationFromContext(ctx)
			if err := op.Complete(ctx, r, "of the completion", nil); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Second)
			return "of the action", nil
		})
		if err != nil || got.Value != "of the completion" || got.Stale {
			t.Errorf("got %+v, %v, want what others have", got, err)
		}
		for kind, name := range map[guard.EventKind]string{guard.EventLost: "lost leases", guard.EventStale: "double runs"} {
			if n := rec.count(kind); n != 0 {
				t.Errorf("told of %d %s", n, name)
			}
		}
		wantDo(t, op, "again", "of the completion")
	})
}

// The record is gone, or its tombstone is: the key is as free as an error leaves it.
func TestComplete_AnErrorMayBeTriedAgainAlsoWhenTheRecordIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, _ := newOp[string](t, store, keepsForAnHour(), guard.WithLease(time.Second), guard.WithRetention(time.Second))
		r := leave(t, op)
		time.Sleep(48 * time.Hour)
		left, leave := context.WithCancel(t.Context())
		leave()
		for _, ctx := range []context.Context{t.Context(), left} {
			if err := op.Complete(ctx, r, "", errors.New("declined")); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		}
		wantDo(t, op, "again", "again")
	})
}

// Another process has the operation in the Run mode, and completes what this one has kept.
func TestComplete_InTheRunModeItSettlesTheKeyToo(t *testing.T) {
	for name, failure := range map[string]error{"value": nil, "error": errors.New("declined")} {
		t.Run(name, func(t *testing.T) {
			store := guard.NewMemoryStore()
			op, _ := newOp[string](t, store, keepsForAnHour(), guard.OnInFlight(guard.Refuse))
			other, _ := newOp[string](t, store, guard.OnInFlight(guard.Run))
			r := leave(t, op)
			if err := other.Complete(t.Context(), r, "approved", failure); err != nil {
				t.Fatal(err)
			}
			want := "approved"
			if failure != nil {
				want = "again"
			}
			wantDo(t, op, "again", want)
			if err := other.Complete(t.Context(), r, "another", nil); !errors.Is(err, guard.ErrStale) {
				t.Errorf("got %v, want ErrStale", err)
			}
		})
	}
}

// An error frees the key, and another owner may run while the action does.
func TestComplete_WithAnErrorWhileTheActionRunsIsALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour(), guard.WithLease(3*time.Second), guard.WithCancelOnLost())
		_, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (string, error) {
			r, _ := guard.ReservationFromContext(ctx)
			if err := op.Complete(ctx, r, "", errors.New("declined")); err != nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
			return "", context.Cause(ctx)
		})
		if !errors.Is(err, guard.ErrLeaseLost) || rec.count(guard.EventLost) != 1 {
			t.Errorf("got %v, told of %d lost leases, want the action to learn of it", err, rec.count(guard.EventLost))
		}
	})
}

// The owner stands still for longer than its lease, an operator erases its key, and another owner runs.
func TestErase_OfAKeyWhoseOwnerStandsStillIsALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, frozen := newFaultyStore(), true
		op, rec := newOp[string](t, erasing{store}, guard.WithLease(3*time.Second))
		store.set(func(ctx context.Context, call func(context.Context) error) error {
			if frozen {
				frozen = false
				time.Sleep(6 * time.Second)
			}
			return call(context.WithoutCancel(ctx))
		}, guard.PhaseRenew)
		go func() {
			time.Sleep(6 * time.Second)
			if err := op.Erase(t.Context(), "order-1"); err != nil {
				t.Error(err)
			}
		}()
		_, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (string, error) {
			time.Sleep(11 * time.Second)
			lease, _ := guard.LeaseFromContext(ctx)
			select {
			case <-lease.Lost():
			default:
				t.Error("the action does not know of it")
			}
			return "late", nil
		})
		if n := rec.count(guard.EventLost); err != nil || n != 1 {
			t.Errorf("%v, told of %d lost leases, want 1", err, n)
		}
	})
}

type erasing struct{ *faultyStore }

func (e erasing) Erase(ctx context.Context, req guard.EraseRequest) (guard.EraseReply, error) {
	return e.Store.(guard.Eraser).Erase(ctx, req)
}

// The action comes back with another answer than others have.
func TestComplete_AnActionWithAnotherAnswerThanOthersHaveIsStale(t *testing.T) {
	declined := errors.New("declined")
	op, rec := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour(), guard.WithErrorCodec(guard.NamedErrors(map[string]error{"declined": declined})),
		guard.OnFailure(func(error, bool) guard.Disposition { return guard.Remember }))
	got, err := op.DoResult(t.Context(), "order-1", func(ctx context.Context) (string, error) {
		r, _ := guard.ReservationFromContext(ctx)
		return "approved", op.Complete(ctx, r, "", declined)
	})
	if err != nil || got.Value != "approved" || !got.Stale || rec.count(guard.EventStale) != 1 {
		t.Errorf("got %+v, %v, told of %d stale results, want that it is one", got, err, rec.count(guard.EventStale))
	}
}

func TestComplete_RefusesNumbersThatNoStoreHoldsExactly(t *testing.T) {
	op, _ := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour())
	r := leave(t, op)
	for _, change := range []func(*guard.Reservation){
		func(r *guard.Reservation) { r.Fence = 1 << 60 }, func(r *guard.Reservation) { r.Attempt = -1 },
	} {
		wrong := r
		change(&wrong)
		if err := op.Complete(t.Context(), wrong, "yes", nil); err == nil || errors.Is(err, guard.ErrStale) || errors.Is(err, guard.ErrStorage) {
			t.Errorf("%+v: %v, want that it is no reservation", wrong, err)
		}
	}
}
