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

func TestStorage_TheStoreFailsBeforeTheAction(t *testing.T) {
	for name, f := range map[string]fault{"fails": fails, "hangs": hangs} {
		t.Run("fail open, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				op, rec := newOp[int](t, store)
				store.set(f, guard.PhaseReserve)
				var c counter
				began := time.Now()
				r, err := op.DoResult(t.Context(), "order-1", c.act)
				if err != nil || r.Value != 1 || r.How != guard.OutcomeUnguarded || r.Fence != 0 {
					t.Errorf("got %+v, %v", r, err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("took %s, want at most the store timeout", took)
				}
				if load(t, store, "order-1").Record.Status != guard.StatusCompleted {
					t.Error("the result must be stored when the store is back")
				}
				if rec.count(guard.EventUnguarded) != 1 || rec.count(guard.EventStorageError) != 1 {
					t.Error("an unguarded run and its storage error must be counted")
				}
				rec.wantOutcomes(t, guard.OutcomeUnguarded)
			})
		})
		t.Run("fail closed, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				op, rec := newOp[int](t, store, guard.OnStorageError(guard.FailClosed))
				store.set(f, guard.PhaseReserve)
				var c counter
				_, err := op.Do(t.Context(), "order-1", c.act)
				var storage *guard.StorageError
				if !errors.Is(err, guard.ErrStorage) || !errors.As(err, &storage) || storage.Phase != guard.PhaseReserve {
					t.Fatalf("got %v, want a storage error at reserve", err)
				}
				if name == "hangs" && (storage.Class != guard.ClassTimeout || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("got class %q, %v; want timeout", storage.Class, err)
				}
				if c.count() != 0 {
					t.Error("the action must not run")
				}
				rec.wantOutcomes(t, guard.OutcomeRejected)
			})
		})
	}
}

func TestStorage_FailClosedRetryDoesNotMeetItsOwnGhost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, _ := newOp[int](t, store, guard.OnStorageError(guard.FailClosed), guard.OnInFlight(guard.Refuse))
		store.set(losesReply, guard.PhaseReserve)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); !errors.Is(err, guard.ErrStorage) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait() // the release goes on in the background
		store.set(nil, guard.PhaseReserve)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); err != nil {
			t.Errorf("the retry met the reservation of the call before: %v", err)
		}
	})
}

func TestStorage_FailOpenRunThatFailsFreesItsGhost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, guard.OnInFlight(guard.Refuse))
		store.set(losesReply, guard.PhaseReserve)
		_, _ = op.Do(t.Context(), "order-1", func(context.Context) (int, error) { return 0, errors.New("declined") })
		store.set(nil, guard.PhaseReserve)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); err != nil {
			t.Errorf("the retry met the reservation of the call before: %v", err)
		}
		rec.wantOutcomes(t, guard.OutcomeFailed, guard.OutcomeExecuted)
	})
}

func TestStorage_CallerThatLeavesWhileTheStoreHangsIsCanceledInEveryMode(t *testing.T) {
	for _, mode := range []guard.StorageErrorMode{guard.FailOpen, guard.FailClosed} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			op, rec := newOp[int](t, store, guard.OnStorageError(mode))
			store.set(hangs, guard.PhaseReserve)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			var c counter
			began := time.Now()
			_, err := op.Do(ctx, "order-1", c.act)
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, guard.ErrStorage) || c.count() != 0 {
				t.Errorf("%s: got %v after %d runs, want the caller's deadline and none", mode, err, c.count())
			}
			if took := time.Since(began); took != 50*time.Millisecond {
				t.Errorf("%s: took %s", mode, took)
			}
			rec.wantOutcomes(t, guard.OutcomeCanceled)
		})
	}
}

func TestStorage_AContextThatEndsDuringTheReserveReleasesAndDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store)
		ctx, cancel := context.WithCancel(t.Context())
		store.set(func(ctx context.Context, call func(context.Context) error) error {
			err := call(ctx)
			cancel()
			return err
		}, guard.PhaseReserve)
		var c counter
		if _, err := op.Do(ctx, "order-1", c.act); !errors.Is(err, context.Canceled) || c.count() != 0 {
			t.Errorf("got %v after %d runs", err, c.count())
		}
		synctest.Wait()
		if status := load(t, store, "order-1").Record.Status; status != guard.StatusReleased {
			t.Errorf("record is %q, want released", status)
		}
		rec.wantOutcomes(t, guard.OutcomeCanceled)
		if rec.count(guard.EventAcquired) != rec.count(guard.EventEnded) {
			t.Error("leases held must come back to where they were")
		}
	})
}

func TestStorage_AfterTheActionTheResultIsReturnedInEveryMode(t *testing.T) {
	for _, mode := range []guard.StorageErrorMode{guard.FailOpen, guard.FailClosed} {
		for name, f := range map[string]fault{"fails": fails, "hangs": hangs, "loses replies": losesReply} {
			synctest.Test(t, func(t *testing.T) {
				store := newFaultyStore()
				op, rec := newOp[int](t, store, guard.OnStorageError(mode))
				store.set(f, guard.PhaseReplace, guard.PhaseRelease)
				got, err := op.Do(t.Context(), "order-1", new(counter).act)
				if got != 1 || err != nil {
					t.Errorf("%s, replace %s: got %d, %v; want the result", mode, name, got, err)
				}
				declined := errors.New("declined")
				_, err = op.Do(t.Context(), "order-2", func(context.Context) (int, error) { return 0, declined })
				if err != declined { //nolint:errorlint // identity is the promise
					t.Errorf("%s, release %s: got %v, want the action's error", mode, name, err)
				}
				if n := rec.count(guard.EventStorageError); n != 2 {
					t.Errorf("%s, %s: %d storage errors counted, want 2 by now", mode, name, n)
				}
				rec.wantOutcomes(t, guard.OutcomeExecuted, guard.OutcomeFailed)
				time.Sleep(lease) // the tries behind the caller end with the lease
			})
		}
	}
}

func TestStorage_AResultIsStoredWhenTheStoreIsBackWithinTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		g, op := newGuardOp[int](t, store)
		store.set(fails, guard.PhaseReplace)
		var c counter
		if got, err := op.Do(t.Context(), "order-1", c.act); got != 1 || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
		time.Sleep(20 * time.Second)
		store.set(nil, guard.PhaseReplace)
		if err := g.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := load(t, store, "order-1").Record; got.Status != guard.StatusCompleted {
			t.Errorf("the record is %q, want the result", got.Status)
		}
	})
}

func TestStorage_AResultThatTheStoreNeverTakesIsCountedWhenTheLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store)
		store.set(fails, guard.PhaseReplace)
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); err != nil {
			t.Fatal(err)
		}
		if n := rec.count(guard.EventUnstored); n != 0 {
			t.Errorf("%d unstored while there is time", n)
		}
		time.Sleep(lease)
		if n, tries := rec.count(guard.EventUnstored), store.called(guard.PhaseReplace); n != 1 || tries < 20 {
			t.Errorf("%d unstored after %d tries, want one after many", n, tries)
		}
		if got, err := op.Do(t.Context(), "order-1", func(context.Context) (int, error) { return 2, nil }); got != 2 || err != nil {
			t.Errorf("after the lease the key must be free: got %d, %v", got, err)
		}
		time.Sleep(lease)
	})
}

func TestStorage_ADeadlineThatPassesWhileTheStoreIsAskedIsCanceledInEveryMode(t *testing.T) {
	// A client that keeps to the deadline can fail before the context's own timer.
	for _, mode := range []guard.StorageErrorMode{guard.FailOpen, guard.FailClosed} {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, guard.OnStorageError(mode))
		store.set(func(ctx context.Context, _ func(context.Context) error) error {
			deadline, _ := ctx.Deadline()
			for time.Now().Before(deadline) { // busy, so that the context's timer comes late
			}
			return errStoreDown
		}, guard.PhaseReserve)
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			var c counter
			_, err := op.Do(ctx, "order-1", c.act)
			if !errors.Is(err, context.DeadlineExceeded) || c.count() != 0 {
				t.Fatalf("%s: got %v after %d runs, want the deadline and none", mode, err, c.count())
			}
			cancel()
		}
		for _, got := range rec.outcomes() { // invalid: this goroutine itself was late
			if got != guard.OutcomeCanceled && got != guard.OutcomeInvalid {
				t.Errorf("%s: outcome %q", mode, got)
			}
		}
	}
}

func TestStorage_APanicInTheStoreIsAnErrorOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		panics := func(context.Context, func(context.Context) error) error { panic("store") }
		op, rec := newOp[int](t, store, guard.OnStorageError(guard.FailClosed))
		store.set(panics, guard.PhaseRenew)
		if got, err := op.Do(t.Context(), "order-1", slow(15*time.Second).act); got != 1 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		store.set(panics, guard.PhaseReserve)
		if _, err := op.Do(t.Context(), "order-2", new(counter).act); !errors.Is(err, guard.ErrStorage) {
			t.Errorf("got %v, want ErrStorage", err)
		}
		rec.wantOutcomes(t, guard.OutcomeExecuted, guard.OutcomeRejected)
	})
}

func TestStorage_AnImmediateRetryDoesNotMeetItsGhost(t *testing.T) {
	store := newFaultyStore()
	op, _ := newOp[int](t, store, guard.OnStorageError(guard.FailClosed), guard.OnInFlight(guard.Refuse))
	for range 50 {
		store.set(once(losesReply), guard.PhaseReserve)
		key := rand.Text()
		if _, err := op.Do(t.Context(), key, new(counter).act); !errors.Is(err, guard.ErrStorage) {
			t.Fatalf("got %v", err)
		}
		if _, err := op.Do(t.Context(), key, new(counter).act); err != nil {
			t.Fatalf("the retry met the reservation of the call before: %v", err)
		}
	}
}

func TestClassify_StandardErrors(t *testing.T) {
	classified := &guard.ClassifiedError{Class: guard.ClassReadOnly, Err: errStoreDown}
	for _, test := range []struct {
		err  error
		want guard.ErrorClass
	}{
		{context.DeadlineExceeded, guard.ClassTimeout},
		{timeoutError{true}, guard.ClassTimeout},
		{timeoutError{false}, guard.ClassConnection},
		{classified, guard.ClassReadOnly},
		{errors.New("?"), guard.ClassOther},
	} {
		if got := guard.Classify(test.err); got != test.want {
			t.Errorf("%v: got %q, want %q", test.err, got, test.want)
		}
	}
	if !errors.Is(classified, errStoreDown) || classified.Error() != errStoreDown.Error() {
		t.Error("a classified error must still be the store's own")
	}
}

type timeoutError struct{ timeout bool }

func (timeoutError) Error() string   { return "network" }
func (e timeoutError) Timeout() bool { return e.timeout }
func (timeoutError) Temporary() bool { return false }
