package guard_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// bureau is a recovery hook that tells what it is told to, and keeps what it was asked.
type bureau struct {
	mu      sync.Mutex
	answer  func(ctx context.Context) (int, guard.Finding, error)
	asked   []guard.Evidence
	fences  []int64 // of the context
	already int     // how many ask right now
	atOnce  int     // the most that asked at once
}

func (b *bureau) ask(ctx context.Context, lost guard.Evidence) (int, guard.Finding, error) {
	b.mu.Lock()
	b.asked = append(b.asked, lost)
	fence, _ := guard.FenceFromContext(ctx)
	b.fences = append(b.fences, fence)
	b.already++
	b.atOnce = max(b.atOnce, b.already)
	answer := b.answer
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.already--
		b.mu.Unlock()
	}()
	return answer(ctx)
}

func (b *bureau) set(answer func(context.Context) (int, guard.Finding, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func (b *bureau) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// says is an answer.
func says(value int, finding guard.Finding, err error) func(context.Context) (int, guard.Finding, error) {
	return func(context.Context) (int, guard.Finding, error) { return value, finding, err }
}

func (b *bureau) options(more ...guard.OperationOption) []guard.OperationOption {
	return append([]guard.OperationOption{guard.ForPayments(), guard.WithRecovery(b.ask)}, more...)
}

func asking(answer func(context.Context) (int, guard.Finding, error)) *bureau {
	return &bureau{answer: answer}
}

func TestRecovery_FoundIsTheResultOfAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := guard.NewMemoryStore(), asking(says(42, guard.Found, nil))
		dead := die(t, store, "k", b.options()...)
		op, rec := newOp[int](t, store, b.options()...)
		var c counter
		got, err := op.DoResult(t.Context(), "k", c.act)
		if got.Value != 42 || err != nil || got.How != guard.OutcomeRecovered {
			t.Fatalf("%+v, %v", got, err)
		}
		if again, err := op.Do(t.Context(), "k", c.act); again != 42 || err != nil {
			t.Errorf("the next call got %d, %v", again, err)
		}
		if c.count() != 0 || b.count() != 1 {
			t.Errorf("%d runs, asked %d times, want none and once", c.count(), b.count())
		}
		lost := b.asked[0]
		if lost.Key.Name != "k" || lost.Dispatch.Owner != dead.Owner || lost.Dispatch.Fence != dead.Fence ||
			!lost.Dispatch.At.Equal(dead.Created) || lost.Fence != got.Fence || lost.Fence <= dead.Fence || b.fences[0] != lost.Fence {
			t.Errorf("asked about %+v, want the run of %+v, with a larger fence", lost, dead)
		}
		rec.wantOutcomes(t, guard.OutcomeRecovered, guard.OutcomeReplayed)
		if rec.phase("recover:found") != 1 {
			t.Errorf("phases %q", rec.phases)
		}
	})
}

func TestRecovery_NotFoundRunsAndIsTheRunInQuestionFromThenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := guard.NewMemoryStore(), asking(says(0, guard.NotFound, nil))
		die(t, store, "k", b.options()...)
		op, rec := newOp[int](t, store, b.options()...)
		var own guard.Record
		got, err := op.DoResult(t.Context(), "k", func(context.Context) (int, error) {
			own = load(t, store, "k").Record
			return 1, nil
		})
		if got.Value != 1 || err != nil || got.How != guard.OutcomeExecuted {
			t.Fatalf("%+v, %v", got, err)
		}
		if own.Dispatch == nil || own.Dispatch.Fence != got.Fence || own.Dispatch.Owner != own.Owner {
			t.Errorf("while it ran the evidence was %+v, want its own", own.Dispatch)
		}
		rec.wantOutcomes(t, guard.OutcomeExecuted)
	})
}

// TestRecovery_CannotTell: in each of these nobody knows, and the evidence of the
// first owner stays.
func TestRecovery_CannotTellHoldsAndKeepsTheEvidence(t *testing.T) {
	errDown := errors.New("provider down")
	for name, answer := range map[string]func(context.Context) (int, guard.Finding, error){
		"it says so":          says(0, guard.CannotTell, nil),
		"an error":            says(1, guard.Found, errDown),
		"a word unknown":      says(1, "maybe", nil),
		"a panic":             func(context.Context) (int, guard.Finding, error) { panic("boom") },
		"it exits":            func(context.Context) (int, guard.Finding, error) { runtime.Goexit(); return 0, "", nil },
		"it takes too long":   func(ctx context.Context) (int, guard.Finding, error) { <-ctx.Done(); return 1, guard.Found, nil },
		"it does not give up": func(context.Context) (int, guard.Finding, error) { time.Sleep(time.Hour); return 1, guard.Found, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, b := guard.NewMemoryStore(), asking(answer)
				dead := die(t, store, "k", b.options()...)
				op, rec := newOp[int](t, store, b.options(guard.WithRecoveryTimeout(time.Minute))...)
				start := time.Now()
				var c counter
				_, err := op.Do(t.Context(), "k", c.act)
				unknown, ok := errors.AsType[*guard.OutcomeUnknownError](err)
				if !ok || c.count() != 0 || time.Since(start) > time.Minute {
					t.Fatalf("got %v after %d runs and %s", err, c.count(), time.Since(start))
				}
				if unknown.Owner != dead.Owner.Label || !unknown.Since.Equal(dead.Created) {
					t.Errorf("%+v, want the dead owner", unknown)
				}
				held := load(t, store, "k").Record
				if held.Status != guard.StatusHeld || held.Owner != dead.Owner || held.Dispatch == nil ||
					held.Dispatch.Owner != dead.Owner || held.Dispatch.Fence != dead.Fence {
					t.Errorf("the key has %+v, want the dead owner's evidence", held)
				}
				if unknown.Err == nil || !held.Created.Equal(dead.Created) || held.TookOver != nil {
					t.Errorf("%v; %+v", unknown.Err, held)
				}
				if held.Fence != unknown.Fence {
					t.Errorf("the error has fence %d, the record %d: it is what Resolve needs", unknown.Fence, held.Fence)
				}
				rec.wantReason(t, guard.EventHeld, guard.ReasonCannotTell)
				rec.wantOutcomes(t, guard.OutcomeUnknown)

				b.set(says(42, guard.Found, nil))
				if got, err := op.Do(t.Context(), "k", c.act); got != 42 || err != nil {
					t.Errorf("when the provider was back: %d, %v", got, err)
				}
				time.Sleep(2 * time.Hour) // the one that does not give up
			})
		})
	}
}

func TestRecovery_TheHooksErrorIsInTheCallersError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errDown := errors.New("provider down")
		store, b := guard.NewMemoryStore(), asking(says(0, guard.CannotTell, errDown))
		die(t, store, "k", b.options()...)
		op, _ := newOp[int](t, store, b.options()...)
		_, err := op.Do(t.Context(), "k", new(counter).act)
		unknown, ok := errors.AsType[*guard.OutcomeUnknownError](err)
		if !ok || !errors.Is(unknown.Err, errDown) || unknown.RetryAfter != guard.DefaultLease {
			t.Fatalf("got %v", err)
		}
		if errors.Is(err, errDown) {
			t.Error("the hook's error passes for the call's own")
		}
	})
}

func TestRecovery_OneAsksAndTheOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		b := asking(func(context.Context) (int, guard.Finding, error) {
			time.Sleep(10 * time.Second)
			return 42, guard.Found, nil
		})
		die(t, store, "k", b.options()...)
		op, _ := newOp[int](t, store, b.options()...)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if got, err := op.Do(t.Context(), "k", new(counter).act); got != 42 || err != nil {
					t.Errorf("%d, %v", got, err)
				}
			})
		}
		all.Wait()
		if b.count() != 1 {
			t.Errorf("asked %d times, want once", b.count())
		}
	})
}

func TestRecovery_IsUnderRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		b := asking(func(context.Context) (int, guard.Finding, error) {
			time.Sleep(3 * guard.DefaultLease)
			return 42, guard.Found, nil
		})
		opts := b.options(guard.WithRecoveryTimeout(time.Hour), guard.WithWaitBound(time.Hour))
		die(t, store, "k", opts...)
		op, _ := newOp[int](t, store, opts...)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * guard.DefaultLease)
				if got, err := op.Do(t.Context(), "k", new(counter).act); got != 42 || err != nil {
					t.Errorf("%d, %v", got, err)
				}
			})
		}
		all.Wait()
		if b.atOnce != 1 || b.count() != 1 {
			t.Errorf("%d asked at once, %d in all", b.atOnce, b.count())
		}
	})
}

func TestRecovery_WaitsForTheSettleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, b := guard.NewMemoryStore(), asking(says(42, guard.Found, nil))
		opts := b.options(guard.WithSettleTime(10*time.Minute), guard.WithWaitBound(time.Hour))
		op, _ := newOp[int](t, store, opts...)
		if _, err := op.Do(t.Context(), "k", func(context.Context) (int, error) { return 0, errAmbiguous }); !errors.Is(err, errAmbiguous) {
			t.Fatal(err)
		}
		start := time.Now()
		if got, err := op.Do(t.Context(), "k", new(counter).act); got != 42 || err != nil {
			t.Fatal(got, err)
		}
		if waited := time.Since(start); waited < 10*time.Minute || waited > 10*time.Minute+2*time.Second {
			t.Errorf("asked after %s, want 10 min", waited)
		}
	})
}

func TestRecovery_TooEarlyItSaysWhenToAskAgain(t *testing.T) {
	for _, mode := range []guard.OperationOption{guard.OnInFlight(guard.Refuse), guard.WithWaitBound(time.Minute)} {
		synctest.Test(t, func(t *testing.T) {
			store, b := guard.NewMemoryStore(), asking(says(42, guard.Found, nil))
			op, rec := newOp[int](t, store, b.options(guard.WithSettleTime(10*time.Minute), mode)...)
			_, _ = op.Do(t.Context(), "k", func(context.Context) (int, error) { return 0, errAmbiguous })
			_, err := op.Do(t.Context(), "k", new(counter).act)
			unknown, ok := errors.AsType[*guard.OutcomeUnknownError](err)
			if !ok || unknown.RetryAfter < 8*time.Minute || unknown.RetryAfter > 10*time.Minute {
				t.Fatalf("got %v, %+v", err, unknown)
			}
			time.Sleep(unknown.RetryAfter)
			if got, err := op.Do(t.Context(), "k", new(counter).act); got != 42 || err != nil {
				t.Errorf("then %d, %v", got, err)
			}
			rec.wantOutcomes(t, guard.OutcomeFailed, guard.OutcomeUnknown, guard.OutcomeRecovered)
			if rec.count(guard.EventCollision) != 0 {
				t.Error("a held key was counted as a collision")
			}
		})
	}
}
