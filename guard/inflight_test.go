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

const lease = 30 * time.Second

// start runs a call in the background.
func start[T any](ctx context.Context, op *guard.Operation[T], key string,
	act func(context.Context) (T, error), opts ...guard.CallOption,
) <-chan callResult[T] {
	done := make(chan callResult[T], 1)
	go func() {
		result, err := op.DoResult(ctx, key, act, opts...)
		done <- callResult[T]{result, err, time.Now()}
	}()
	return done
}

type callResult[T any] struct {
	guard.Result[T]
	err error
	at  time.Time
}

func TestCase_W1_TwoCallsFiftyMillisecondsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore())
		c := slow(2 * time.Second)
		first := start(t.Context(), op, "order-1", c.act)
		time.Sleep(50 * time.Millisecond)
		second := start(t.Context(), op, "order-1", c.act)
		a, b := <-first, <-second
		if a.Value != 1 || b.Value != 1 || a.err != nil || b.err != nil || c.count() != 1 {
			t.Errorf("got %+v and %+v after %d runs, want one result for both", a, b, c.count())
		}
		if b.How != guard.OutcomeReplayed {
			t.Errorf("the second call was %q, want replayed", b.How)
		}
		if late := b.at.Sub(a.at); late > time.Second {
			t.Errorf("the waiter came back %s after the owner, want within the longest poll", late)
		}
		if n := rec.count(guard.EventCollision); n != 1 {
			t.Errorf("%d collisions, want 1", n)
		}
	})
}

func TestCase_W2_TwoHundredGoroutinesOnOneKey(t *testing.T) {
	op, rec := newOp[int](t, guard.NewMemoryStore())
	release := make(chan struct{})
	c := counter{before: func(int) error { <-release; return nil }}
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			if got, err := op.Do(t.Context(), "order-1", c.act); got != 1 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
	for rec.count(guard.EventCollision) < 199 { // all others have met the owner
		time.Sleep(time.Millisecond)
	}
	close(release)
	group.Wait()
	if c.count() != 1 {
		t.Errorf("%d runs, want 1", c.count())
	}
}

func TestCase_W5_AnotherInputIsAMismatchAlsoWhileInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []guard.InFlightMode{guard.Wait, guard.Refuse} {
			op, rec := newOp[int](t, guard.NewMemoryStore(), guard.OnInFlight(mode))
			c := slow(time.Second)
			first := start(t.Context(), op, "order-1", c.act, guard.WithInput(map[string]int{"cents": 100}))
			time.Sleep(50 * time.Millisecond)
			_, err := op.Do(t.Context(), "order-1", c.act, guard.WithInput(map[string]int{"cents": 200}))
			if !errors.Is(err, guard.ErrMismatch) || errors.Is(err, guard.ErrInProgress) {
				t.Errorf("%s: got %v, want ErrMismatch", mode, err)
			}
			<-first
			if _, err = op.Do(t.Context(), "order-1", c.act, guard.WithInput(map[string]int{"cents": 200})); !errors.Is(err, guard.ErrMismatch) {
				t.Errorf("%s: after completion got %v, want ErrMismatch", mode, err)
			}
			if got, err := op.Do(t.Context(), "order-1", c.act); got != 1 || err != nil {
				t.Errorf("%s: without input nothing is compared: got %d, %v", mode, got, err)
			}
			rec.wantOutcomes(t, guard.OutcomeMismatched, guard.OutcomeExecuted, guard.OutcomeMismatched, guard.OutcomeReplayed)
			if rec.count(guard.EventMismatch) != 2 || rec.count(guard.EventCollision) != 0 {
				t.Errorf("%s: want two mismatches and no collision", mode)
			}
		}
	})
}

func TestWithInput_TheSameInputInAnyOrderIsTheSame(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore())
	type order struct {
		Cents int64  `json:"cents"`
		ID    string `json:"id"`
	}
	var c counter
	for _, input := range []any{
		order{Cents: 9007199254740993, ID: "a"},
		map[string]any{"id": "a", "cents": int64(9007199254740993)},
		&order{Cents: 9007199254740993, ID: "a"},
	} {
		if _, err := op.Do(t.Context(), "k", c.act, guard.WithInput(input)); err != nil {
			t.Errorf("%#v: %v", input, err)
		}
	}
	if _, err := op.Do(t.Context(), "k", c.act, guard.WithInput(order{Cents: 9007199254740992, ID: "a"})); !errors.Is(err, guard.ErrMismatch) {
		t.Errorf("an integer above 2^53 must be told from its neighbour, got %v", err)
	}
}

func TestWithInput_NoJSONFormIsAnErrorBeforeTheAction(t *testing.T) {
	op, rec := newOp[int](t, guard.NewMemoryStore())
	var c counter
	for _, input := range []any{make(chan int), panicker{}, nan()} {
		if _, err := op.Do(t.Context(), "k", c.act, guard.WithInput(input)); !errors.Is(err, guard.ErrInvalidInput) {
			t.Errorf("%T: got %v, want ErrInvalidInput", input, err)
		}
	}
	if c.count() != 0 || rec.phase("reserve:acquired") != 0 {
		t.Error("nothing must run and nothing be reserved")
	}
}

func TestRefuse_SaysWhoHasTheKeyAndWhenToAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore(), guard.OnInFlight(guard.Refuse))
		began := time.Now()
		first := start(t.Context(), op, "order-1", slow(time.Second).act)
		time.Sleep(500 * time.Millisecond)
		_, err := op.Do(t.Context(), "order-1", new(counter).act)
		var inProgress *guard.InProgressError
		if !errors.Is(err, guard.ErrInProgress) || !errors.As(err, &inProgress) {
			t.Fatalf("got %v, want InProgressError", err)
		}
		want := guard.InProgressError{
			Operation: "payment.charge", RetryAfter: lease - 500*time.Millisecond, Since: began, Owner: "test/1",
		}
		if !inProgress.Since.Equal(want.Since) {
			t.Errorf("since %s, want %s", inProgress.Since, want.Since)
		}
		inProgress.Since = want.Since
		if *inProgress != want {
			t.Errorf("got %+v, want %+v", *inProgress, want)
		}
		<-first
		rec.wantOutcomes(t, guard.OutcomeRefused, guard.OutcomeExecuted)
	})
}

func TestCase_W7_TheHolderFailsAndExactlyOneOfThreeTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := newOp[int](t, guard.NewMemoryStore())
		c := counter{before: func(run int) error {
			time.Sleep(time.Second)
			if run == 1 {
				return errors.New("declined")
			}
			return nil
		}}
		first := start(t.Context(), op, "order-1", c.act)
		time.Sleep(10 * time.Millisecond)
		var waiters []<-chan callResult[int]
		for range 3 {
			waiters = append(waiters, start(t.Context(), op, "order-1", c.act))
		}
		if r := <-first; r.err == nil {
			t.Error("the holder must get its own error")
		}
		ran := 0
		for _, w := range waiters {
			r := <-w
			if r.Value != 2 || r.err != nil {
				t.Errorf("got %+v", r)
			}
			if r.How == guard.OutcomeExecuted {
				ran++
			}
		}
		if ran != 1 || c.count() != 2 {
			t.Errorf("%d waiters ran, %d runs; want one takeover", ran, c.count())
		}
	})
}

func TestCase_W6_TheHoldersLeaseIsItsOwnSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		reserveAs(t, store, "dead")
		op, rec := newOp[int](t, store)
		time.Sleep(10 * time.Second)
		began := time.Now()
		r, err := op.DoResult(t.Context(), "order-1", new(counter).act)
		if err != nil || r.How != guard.OutcomeExecuted {
			t.Fatalf("got %+v, %v", r, err)
		}
		if waited := time.Since(began); waited < 20*time.Second || waited > 20*time.Second+10*time.Millisecond {
			t.Errorf("waited %s, want the 20 s that were left of the lease", waited)
		}
		for _, e := range rec.events {
			if e.Kind == guard.EventAcquired && (e.Record.TookOver == nil || e.Record.TookOver.Owner.Label != "dead") {
				t.Errorf("the takeover must name the previous owner: %+v", e.Record.TookOver)
			}
		}
	})
}

// reserveAs leaves a reservation of an owner that never comes back.
func reserveAs(t *testing.T, store guard.Store, label string) guard.ReserveReply {
	t.Helper()
	reply, err := store.Reserve(t.Context(), guard.ReserveRequest{
		Key:   guard.Key{Operation: "payment.charge", Name: "order-1"},
		Owner: guard.Owner{Token: label, Label: label}, Lease: lease, Retention: time.Hour,
	})
	if err != nil || !reply.Acquired {
		t.Fatalf("reserve as %s: %+v, %v", label, reply, err)
	}
	return reply
}

func TestCase_W6_TheWaitBoundIsItsOwnSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore(), guard.WithWaitBound(3*time.Second))
		first := start(t.Context(), op, "order-1", slow(10*time.Second).act)
		time.Sleep(time.Millisecond)
		began := time.Now()
		_, err := op.Do(t.Context(), "order-1", new(counter).act)
		if !errors.Is(err, guard.ErrInProgress) {
			t.Fatalf("got %v, want ErrInProgress", err)
		}
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %s, want the bound of 3 s", waited)
		}
		<-first
		rec.wantOutcomes(t, guard.OutcomeRefused, guard.OutcomeExecuted)
	})
}

func TestWait_OneLastReserveAtTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		reserveAs(t, store, "dead")
		op, rec := newOp[int](t, store, guard.WithWaitBound(2*time.Second))
		time.Sleep(lease - 2*time.Second) // the lease ends at the very moment of the bound
		if _, err := op.Do(t.Context(), "order-1", new(counter).act); err != nil {
			t.Errorf("got %v, want the key", err)
		}
		rec.wantOutcomes(t, guard.OutcomeExecuted)
	})
}

func TestCase_W6_TheWaitersDeadlineIsItsOwnSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore())
		first := start(t.Context(), op, "order-1", slow(10*time.Second).act)
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 1234*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := op.Do(ctx, "order-1", new(counter).act)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 1234*time.Millisecond {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		<-first
		rec.wantOutcomes(t, guard.OutcomeCanceled, guard.OutcomeExecuted)
	})
}

func TestWait_BlipsOfTheStoreAreAbsorbedWhileTheOwnerMayLive(t *testing.T) {
	for _, mode := range []guard.StorageErrorMode{guard.FailOpen, guard.FailClosed} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			op, rec := newOp[int](t, store, guard.OnStorageError(mode))
			c := slow(8 * time.Second)
			first := start(t.Context(), op, "order-1", c.act)
			time.Sleep(time.Millisecond)
			second := start(t.Context(), op, "order-1", c.act)
			time.Sleep(time.Second)
			store.set(fails, guard.PhaseLoad, guard.PhaseReserve)
			time.Sleep(5 * time.Second)
			store.set(nil, guard.PhaseLoad, guard.PhaseReserve)
			a, b := <-first, <-second
			if a.Value != 1 || b.Value != 1 || b.err != nil || c.count() != 1 {
				t.Errorf("%s: got %+v and %+v after %d runs", mode, a, b, c.count())
			}
			if rec.count(guard.EventStorageError) == 0 {
				t.Errorf("%s: absorbed errors must be counted", mode)
			}
		})
	}
}

func TestWait_AfterTheLeaseLastSeenTheStorageModeDecides(t *testing.T) {
	for mode, want := range map[guard.StorageErrorMode]guard.Outcome{
		guard.FailOpen: guard.OutcomeUnguarded, guard.FailClosed: guard.OutcomeRejected,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaultyStore()
			reserveAs(t, store, "dead")
			op, rec := newOp[int](t, store, guard.OnStorageError(mode), guard.WithWaitBound(time.Minute))
			call := start(t.Context(), op, "order-1", new(counter).act)
			time.Sleep(time.Second)
			store.set(fails, guard.PhaseLoad, guard.PhaseReserve)
			began := time.Now()
			r := <-call
			if waited := time.Since(began); waited < 29*time.Second || waited > 31*time.Second {
				t.Errorf("%s: gave up after %s, want when the 29 s left of the lease are over", mode, waited)
			}
			if r.How != want || errors.Is(r.err, guard.ErrStorage) != (mode == guard.FailClosed) {
				t.Errorf("%s: got %q, %v", mode, r.How, r.err)
			}
			rec.wantOutcomes(t, want)
		})
	}
}

func TestWait_ItsOwnGhostIsRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		dead := reserveAs(t, store, "dead")
		op, rec := newOp[int](t, store)
		call := start(t.Context(), op, "order-1", new(counter).act)
		time.Sleep(time.Second)
		// The owner gives up; the waiter acquires, but never gets the reply.
		store.set(losesReply, guard.PhaseReserve)
		if _, err := store.Release(t.Context(), guard.ReleaseRequest{
			Key: guard.Key{Operation: "payment.charge", Name: "order-1"}, Record: dead.Record, Lease: lease,
		}); err != nil {
			t.Fatal(err)
		}
		for store.called(guard.PhaseReserve) < 3 {
			time.Sleep(10 * time.Millisecond)
		}
		store.set(nil, guard.PhaseReserve)
		if r := <-call; r.How != guard.OutcomeExecuted || r.err != nil {
			t.Errorf("got %q, %v; want its own reservation found", r.How, r.err)
		}
		if n := rec.count(guard.EventCollision); n != 1 {
			t.Errorf("%d collisions, want only the one with the dead owner", n)
		}
	})
}

func TestCase_K9_ARecordOfANewerVersionIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, unknownStore{guard.NewMemoryStore()}, guard.WithWaitBound(2*time.Second))
		var c counter
		if _, err := op.Do(t.Context(), "order-1", c.act); !errors.Is(err, guard.ErrInProgress) || c.count() != 0 {
			t.Errorf("got %v after %d runs, want in progress", err, c.count())
		}
		rec.wantOutcomes(t, guard.OutcomeRefused)
	})
}

// unknownStore finds a record of a newer version under every key.
type unknownStore struct{ guard.Store }

func (unknownStore) Reserve(context.Context, guard.ReserveRequest) (guard.ReserveReply, error) {
	return guard.ReserveReply{Record: guard.Record{Version: 99, Status: guard.StatusUnknown}}, nil
}

func (unknownStore) Load(context.Context, guard.LoadRequest) (guard.LoadReply, error) {
	return guard.LoadReply{Found: true, Record: guard.Record{Version: 99, Status: guard.StatusUnknown}}, nil
}
