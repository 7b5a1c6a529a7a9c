package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

var errLater = errors.New("the result comes later")

func keepsForAnHour() guard.Option {
	return guard.KeepReserved(func(err error) (time.Duration, bool) { return time.Hour, errors.Is(err, errLater) })
}

// leave makes a call that leaves its key to a later completion, and returns what completes
// it, as it would come to another process.
func leave(t *testing.T, op *guard.Operation[string], opts ...guard.CallOption) guard.Reservation {
	t.Helper()
	var sent []byte
	_, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (string, error) {
		r, ok := guard.ReservationFromContext(ctx)
		if !ok {
			t.Error("the action has no reservation")
		}
		var err error
		if sent, err = json.Marshal(r); err != nil {
			t.Error(err)
		}
		return "", errLater
	}, opts...)
	if !errors.Is(err, errLater) {
		t.Fatalf("got %v, want the action's own error", err)
	}
	var r guard.Reservation
	if err := json.Unmarshal(sent, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func answers(s string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return s, nil }
}

func wantDo(t *testing.T, op *guard.Operation[string], action, want string, opts ...guard.CallOption) {
	t.Helper()
	got, err := op.Do(t.Context(), "order-1", answers(action), opts...)
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestComplete_StoresTheResultForThoseWhoWaitAndThoseWhoComeLater(t *testing.T) {
	for name, opts := range map[string][]guard.OperationOption{
		"plain": nil, "hashed keys": {guard.WithHashedKeys()}, "at most once": failClosed(guard.AtMostOnce()),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := append(opts, keepsForAnHour(), guard.WithWaitBound(time.Hour))
				op, rec := newOp[string](t, guard.NewMemoryStore(), opts...)
				r := leave(t, op)
				done := make(chan string)
				go func() {
					got, err := op.Do(t.Context(), "order-1", answers("again"))
					if err != nil {
						t.Error(err)
					}
					done <- got
				}()
				time.Sleep(10 * time.Minute)
				for range 2 { // as somebody does who has died after the first
					if err := op.Complete(t.Context(), r, "approved", nil); err != nil {
						t.Errorf("complete: %v", err)
					}
				}
				if got := <-done; got != "approved" {
					t.Errorf("the waiter got %q", got)
				}
				wantDo(t, op, "again", "approved")
				if rec.count(guard.EventStale) != 0 {
					t.Error("nothing is stale")
				}
			})
		})
	}
}

func failClosed(o guard.OperationOption) []guard.OperationOption {
	return []guard.OperationOption{guard.OnStorageError(guard.FailClosed), o}
}

// Whoever is quick completes the run before its action has come back.
func TestComplete_BeforeTheActionHasLeftTheKeyIsNoLoss(t *testing.T) {
	for name, failure := range map[string]error{"result": nil, "error": errors.New("declined")} {
		t.Run(name, func(t *testing.T) {
			op, rec := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour())
			_, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (string, error) {
				r, _ := guard.ReservationFromContext(ctx)
				if err := op.Complete(ctx, r, "approved", failure); err != nil {
					t.Error(err)
				}
				return "", errLater
			})
			if !errors.Is(err, errLater) {
				t.Error(err)
			}
			if n := rec.count(guard.EventLost); n != 0 {
				t.Errorf("told of %d lost leases", n)
			}
			want := "approved"
			if failure != nil {
				want = "again"
			}
			wantDo(t, op, "again", want)
		})
	}
}

func TestComplete_AfterTheReservationRanOutAndNobodyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour())
		r := leave(t, op)
		time.Sleep(2 * time.Hour)
		if err := op.Complete(t.Context(), r, "approved", nil); err != nil {
			t.Errorf("complete: %v", err)
		}
		wantDo(t, op, "again", "approved")
	})
}

func TestComplete_IsStaleWhenAnotherOwnerHasTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour())
		r := leave(t, op)
		time.Sleep(2 * time.Hour)
		wantDo(t, op, "second", "second")
		if err := op.Complete(t.Context(), r, "approved", nil); !errors.Is(err, guard.ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
		wantDo(t, op, "third", "second")
		if rec.count(guard.EventStale) != 1 {
			t.Errorf("told of %d stale results, want 1", rec.count(guard.EventStale))
		}
	})
}

func TestComplete_WithAnErrorLeavesTheKeyAsTheActionWould(t *testing.T) {
	declined := errors.New("declined")
	remember := func(error, bool) guard.Disposition { return guard.Remember }
	for name, c := range map[string]struct {
		opts []guard.OperationOption
		want error
	}{
		"released":          {nil, nil},
		"at most once":      {failClosed(guard.AtMostOnce()), guard.ErrOutcomeUnknown},
		"marked by leaving": {failClosed(guard.MarkDispatch()), guard.ErrOutcomeUnknown},
		"remembered": {
			[]guard.OperationOption{
				guard.OnFailure(remember), guard.WithErrorCodec(guard.NamedErrors(map[string]error{"declined": declined})),
			}, declined,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				op, _ := newOp[string](t, guard.NewMemoryStore(), append(c.opts, keepsForAnHour())...)
				r := leave(t, op)
				for range 2 {
					if err := op.Complete(t.Context(), r, "", declined); err != nil {
						t.Errorf("complete: %v", err)
					}
				}
				if _, err := op.Do(t.Context(), "order-1", answers("again")); !errors.Is(err, c.want) {
					t.Errorf("the next call got %v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestComplete_SaysThatTheStoreFailedAndMayBeTriedAgain(t *testing.T) {
	store := newFaultyStore()
	op, _ := newOp[string](t, store, keepsForAnHour())
	r := leave(t, op)
	store.set(losesReply, guard.PhaseReplace)
	if err := op.Complete(t.Context(), r, "approved", nil); !errors.Is(err, guard.ErrStorage) {
		t.Errorf("got %v, want ErrStorage", err)
	}
	store.set(nil, guard.PhaseReplace)
	if err := op.Complete(t.Context(), r, "approved", nil); err != nil {
		t.Error(err)
	}
	wantDo(t, op, "again", "approved")
}

func TestComplete_RefusesWhatIsNoReservationOfItsOwn(t *testing.T) {
	op, _ := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour())
	r := leave(t, op)
	other, none, later := r, guard.Reservation{}, r
	other.Operation = "payment.refund"
	for name, c := range map[string]struct {
		r   guard.Reservation
		err error
	}{"another operation": {other, nil}, "none": {none, nil}, "later still": {later, errLater}} {
		if err := op.Complete(t.Context(), c.r, "approved", c.err); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, ok := guard.ReservationFromContext(t.Context()); ok {
		t.Error("a reservation outside of an action")
	}
}

func TestKept_FindsTheReservationOfAKeyThatWaitsForItsCompletion(t *testing.T) {
	op, _ := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour())
	if _, ok, err := op.Kept(t.Context(), "order-1"); ok || err != nil {
		t.Errorf("of no record: %t, %v", ok, err)
	}
	leave(t, op)
	r, ok, err := op.Kept(t.Context(), "order-1")
	if !ok || err != nil {
		t.Fatalf("%t, %v", ok, err)
	}
	if err := op.Complete(t.Context(), r, "approved", nil); err != nil {
		t.Error(err)
	}
	again, ok, err := op.Kept(t.Context(), "order-1")
	if !ok || err != nil || again != r {
		t.Errorf("of a completed record: %+v, %t, %v, want %+v, so that a completion may be tried again", again, ok, err, r)
	}
}

func TestWithTurn_ALaterTurnTakesOverWhatAnEarlierOneHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour(), guard.OnInFlight(guard.Refuse))
		first := leave(t, op, guard.WithTurn("job", 5))
		for name, turn := range map[string]guard.CallOption{
			"an earlier turn": guard.WithTurn("job", 4), "the same": guard.WithTurn("job", 5), "another job": guard.WithTurn("other", 6),
		} {
			if _, err := op.Do(t.Context(), "order-1", answers(name), turn); !errors.Is(err, guard.ErrInProgress) {
				t.Errorf("%s: got %v, want ErrInProgress", name, err)
			}
		}
		wantDo(t, op, "second", "second", guard.WithTurn("job", 6))
		if err := op.Complete(t.Context(), first, "first", nil); !errors.Is(err, guard.ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
		if rec.count(guard.EventStale) != 1 {
			t.Error("the completion of the first turn is stale")
		}
	})
}

func TestWithTurn_ATurnThatRunsIsNotTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := newOp[string](t, guard.NewMemoryStore(), keepsForAnHour(), guard.WithWaitBound(time.Hour))
		go func() {
			_, _ = op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
				time.Sleep(10 * time.Minute)
				return "", errLater
			}, guard.WithTurn("job", 1))
		}()
		synctest.Wait()
		began := time.Now()
		wantDo(t, op, "second", "second", guard.WithTurn("job", 2))
		if took := time.Since(began); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("the second turn came after %s, want it when the first had left the key", took)
		}
	})
}

func TestWithTurn_WhatAnEarlierTurnHasDispatchedIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := newOp[string](t, guard.NewMemoryStore(), append(failClosed(guard.AtMostOnce()), keepsForAnHour())...)
		r := leave(t, op, guard.WithTurn("job", 1))
		if _, err := op.Do(t.Context(), "order-1", answers("second"), guard.WithTurn("job", 2)); !errors.Is(err, guard.ErrOutcomeUnknown) {
			t.Errorf("got %v, want ErrOutcomeUnknown", err)
		}
		if err := op.Complete(t.Context(), r, "approved", nil); err != nil {
			t.Errorf("the completion is the word of who dispatched it: %v", err)
		}
		wantDo(t, op, "third", "approved", guard.WithTurn("job", 3))
	})
}

func TestWithTurn_SaysWhatIsWrong(t *testing.T) {
	op, _ := newOp[string](t, guard.NewMemoryStore())
	for _, turn := range []guard.CallOption{guard.WithTurn("", 1), guard.WithTurn("job", -1), guard.WithTurn("a\nb", 1), guard.WithTurn("job", 1<<53)} {
		if _, err := op.Do(t.Context(), "order-1", answers("ran"), turn); err == nil {
			t.Error("no error")
		}
	}
}
