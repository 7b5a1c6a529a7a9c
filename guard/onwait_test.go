package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// busy starts an owner of the key who takes its time.
func busy(t *testing.T, op *guard.Operation[string], d time.Duration) {
	t.Helper()
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		_, err := op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
			time.Sleep(d)
			return "first", nil
		})
		if err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
}

func TestWaitAtMost_BoundsOneCall(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Duration
		want time.Duration
	}{"sooner": {5 * time.Second, 5 * time.Second}, "at once": {0, 0}, "past": {-time.Second, 0}, "longer than the operation": {time.Hour, lease}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				op, _ := newOp[string](t, guard.NewMemoryStore())
				busy(t, op, 10*time.Minute)
				began := time.Now()
				_, err := op.Do(t.Context(), "order-1", answers("second"), guard.WaitAtMost(c.at))
				var refused *guard.InProgressError
				if !errors.As(err, &refused) || refused.RetryAfter <= 0 {
					t.Errorf("got %v, want ErrInProgress with the lease left", err)
				}
				if waited := time.Since(began); waited != c.want {
					t.Errorf("waited %s, want %s", waited, c.want)
				}
			})
		})
	}
}

func TestOnWait_TakesPartInTheWaitAndNotInTheAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := newOp[string](t, guard.NewMemoryStore())
		type inside struct{}
		var asked, over int
		option := guard.OnWait(func(ctx context.Context) (context.Context, func()) {
			asked++
			return context.WithValue(ctx, inside{}, true), func() { over++ }
		})
		wantDo(t, op, "free", "free", option)
		if asked != 0 {
			t.Error("asked though there was nothing to wait for")
		}
		dying := guard.KeepReserved(func(error) (time.Duration, bool) { return 0, true })
		other, _ := newOp[string](t, guard.NewMemoryStore(), dying)
		_, _ = other.Do(t.Context(), "order-1", func(context.Context) (string, error) { return "", errLater })
		_, err := other.Do(t.Context(), "order-1", func(ctx context.Context) (string, error) {
			if over != 1 {
				t.Error("the action runs before the wait is over")
			}
			if ctx.Value(inside{}) != nil {
				t.Error("the action got the context of the wait")
			}
			return "second", nil
		}, option, guard.WaitAtMost(time.Hour))
		if err != nil || asked != 1 || over != 1 {
			t.Errorf("%v; asked %d times, over %d times, want once", err, asked, over)
		}
	})
}

func TestOnWait_ItsContextEndsTheWaitWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[string](t, guard.NewMemoryStore())
		busy(t, op, time.Minute)
		stopped := errors.New("the worker stops")
		began, over := time.Now(), 0
		_, err := op.Do(t.Context(), "order-1", answers("second"), guard.OnWait(func(ctx context.Context) (context.Context, func()) {
			waits, wake := context.WithCancelCause(ctx)
			time.AfterFunc(3*time.Second, func() { wake(stopped) })
			return waits, func() { over++ }
		}))
		if !errors.Is(err, stopped) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the cause", err)
		}
		if waited := time.Since(began); waited != 3*time.Second || over != 1 {
			t.Errorf("waited %s, over %d times", waited, over)
		}
		rec.wantOutcomes(t, guard.OutcomeCanceled)
	})
}

func TestOnWait_MayRefuse(t *testing.T) {
	for name, f := range map[string]func(context.Context) (context.Context, func()){
		"nil":   func(context.Context) (context.Context, func()) { return nil, nil },
		"panic": func(context.Context) (context.Context, func()) { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				op, rec := newOp[string](t, guard.NewMemoryStore())
				busy(t, op, time.Minute)
				began := time.Now()
				if _, err := op.Do(t.Context(), "order-1", answers("second"), guard.OnWait(f)); !errors.Is(err, guard.ErrInProgress) {
					t.Errorf("got %v, want ErrInProgress", err)
				}
				if waited := time.Since(began); waited != 0 {
					t.Errorf("waited %s", waited)
				}
				if rec.phase("wait:refused") != 0 {
					t.Error("a call that does not wait has no wait")
				}
				rec.wantOutcomes(t, guard.OutcomeRefused)
			})
		})
	}
}

func TestOnWait_APanicOfItsEndIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := newOp[string](t, guard.NewMemoryStore())
		busy(t, op, time.Second)
		wantDo(t, op, "second", "first", guard.OnWait(func(ctx context.Context) (context.Context, func()) {
			return ctx, func() { panic("broken") }
		}))
	})
}

func TestOnWait_TheEndIsToldOnceWhateverCameOfTheWait(t *testing.T) {
	for name, c := range map[string]struct {
		leaves time.Duration // the caller, 0 never
		option guard.CallOption
		want   error
	}{
		"the result":         {want: nil},
		"the bound":          {option: guard.WaitAtMost(time.Second), want: guard.ErrInProgress},
		"the caller's leave": {leaves: time.Second, want: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				op, _ := newOp[string](t, guard.NewMemoryStore())
				busy(t, op, 5*time.Second)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if c.leaves > 0 {
					time.AfterFunc(c.leaves, leave)
				}
				over := 0
				_, err := op.Do(ctx, "order-1", answers("second"), c.option, guard.OnWait(func(ctx context.Context) (context.Context, func()) {
					return ctx, func() { over++ }
				}))
				if !errors.Is(err, c.want) || over != 1 {
					t.Errorf("got %v, want %v; over %d times", err, c.want, over)
				}
			})
		})
	}
}
