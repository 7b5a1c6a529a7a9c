package guard_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func TestDo_RunsOnceAndReplaysTheResult(t *testing.T) {
	op, rec := newOp[int](t, guard.NewMemoryStore())
	var c counter
	for range 3 {
		got, err := op.Do(t.Context(), "order-1", c.act)
		if got != 1 || err != nil {
			t.Fatalf("got %d, %v; want the first run's result", got, err)
		}
	}
	rec.wantOutcomes(t, guard.OutcomeExecuted, guard.OutcomeReplayed, guard.OutcomeReplayed)
	if hits := rec.count(guard.EventHit); hits != 2 {
		t.Errorf("%d hits, want 2", hits)
	}
}

func TestDoResult_SaysHowTheValueCameAbout(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore())
	var c counter
	first, err := op.DoResult(t.Context(), "order-1", c.act)
	if err != nil || first.How != guard.OutcomeExecuted || first.Fence == 0 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	second, err := op.DoResult(t.Context(), "order-1", c.act)
	if err != nil || second.How != guard.OutcomeReplayed || second.Fence != first.Fence {
		t.Fatalf("second: %+v, %v; want a replay with fence %d", second, err, first.Fence)
	}
	if second.ExecutedAt.IsZero() || second.TraceParent != first.TraceParent || second.TraceParent == "" {
		t.Errorf("a replay must say when and in which trace the action ran: %+v", second)
	}
}

func TestDo_ActionErrorComesBackIdenticalAndFreesTheKey(t *testing.T) {
	store := guard.NewMemoryStore()
	op, rec := newOp[int](t, store)
	declined := errors.New("declined")
	c := counter{before: func(run int) error {
		if run == 1 {
			return declined
		}
		return nil
	}}
	if _, err := op.Do(t.Context(), "order-1", c.act); err != declined { //nolint:errorlint // identity is the promise
		t.Fatalf("got %v, want the action's own error", err)
	}
	if got, err := op.Do(t.Context(), "order-1", c.act); got != 2 || err != nil {
		t.Fatalf("a retry must run again: got %d, %v", got, err)
	}
	rec.wantOutcomes(t, guard.OutcomeFailed, guard.OutcomeExecuted)
	if rec.count(guard.EventAcquired) != 2 || rec.count(guard.EventEnded) != 2 {
		t.Error("each acquisition must end")
	}
}

func TestCase_R1_ZeroValuesAreResults(t *testing.T) {
	replays(t, 0)
	replays(t, "")
	replays(t, false)
	replays(t, []int{})
	replays(t, (*int)(nil))
	replays(t, struct{}{})
}

func replays[T any](t *testing.T, value T) {
	t.Helper()
	t.Run(fmt.Sprintf("%T", value), func(t *testing.T) {
		op, _ := newOp[T](t, guard.NewMemoryStore())
		runs := 0
		act := func(context.Context) (T, error) { runs++; return value, nil }
		for range 2 {
			got, err := op.Do(t.Context(), "k", act)
			if err != nil || !reflect.DeepEqual(got, value) {
				t.Fatalf("got %#v, %v; want %#v", got, err, value)
			}
		}
		if runs != 1 {
			t.Errorf("%d runs, want 1", runs)
		}
	})
}

func TestCase_R5_CallerCanceledAfterTheEffectStillStores(t *testing.T) {
	store := guard.NewMemoryStore()
	op, rec := newOp[int](t, store)
	ctx, cancel := context.WithCancel(t.Context())
	got, err := op.Do(ctx, "order-1", func(context.Context) (int, error) {
		cancel() // the effect has happened, the caller is gone
		return 7, nil
	})
	if got != 7 || err != nil {
		t.Fatalf("got %d, %v", got, err)
	}
	if rec := load(t, store, "order-1"); rec.Record.Status != guard.StatusCompleted {
		t.Errorf("record is %q, want completed", rec.Record.Status)
	}
	rec.wantOutcomes(t, guard.OutcomeExecuted)
}

func TestCase_R8_PanicGoesOnWithItsValueAndFreesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble fails when a goroutine is left behind
		store := guard.NewMemoryStore()
		op, rec := newOp[int](t, store)
		type custom struct{ n int }
		value := &custom{n: 7}
		func() {
			defer func() {
				if p := recover(); p != value {
					t.Errorf("recovered %v, want the action's own value", p)
				}
			}()
			_, _ = op.Do(t.Context(), "order-1", func(context.Context) (int, error) { panic(value) })
		}()
		wantReleased(t, store, rec)
	})
}

func TestCase_R8_GoexitFreesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, rec := newOp[int](t, store)
		go func() {
			_, _ = op.Do(t.Context(), "order-1", func(context.Context) (int, error) {
				runtime.Goexit() // as t.FailNow does
				return 0, nil
			})
			t.Error("Goexit must not return to the caller")
		}()
		synctest.Wait()
		wantReleased(t, store, rec)
	})
}

func wantReleased(t *testing.T, store guard.Store, rec *recorder) {
	t.Helper()
	if got := load(t, store, "order-1").Record.Status; got != guard.StatusReleased {
		t.Errorf("record is %q, want released", got)
	}
	rec.wantOutcomes(t, guard.OutcomeFailed)
	if rec.count(guard.EventEnded) != 1 {
		t.Error("the acquisition must end")
	}
	if !errors.Is(rec.ends[0].Err, guard.ErrActionUnwound) {
		t.Errorf("the observer got %v, want word of the unwinding", rec.ends[0].Err)
	}
}

func TestCase_K1_EmptyKeyIsAnErrorNeverASharedRecord(t *testing.T) {
	op, rec := newOp[int](t, guard.NewMemoryStore())
	var c counter
	for range 2 {
		if _, err := op.Do(t.Context(), "", c.act); !errors.Is(err, guard.ErrInvalidKey) {
			t.Fatalf("got %v, want ErrInvalidKey", err)
		}
	}
	if c.count() != 0 {
		t.Error("the action ran")
	}
	rec.wantOutcomes(t, guard.OutcomeInvalid, guard.OutcomeInvalid)
}

func TestCase_K2_KeysThatAreRefusedAndKeysThatAreNot(t *testing.T) {
	refused := map[string]string{
		"256 bytes":        strings.Repeat("a", 256),
		"300 bytes":        strings.Repeat("a", 300),
		"86 three-byte":    strings.Repeat("€", 86),
		"NUL":              "a\x00b",
		"newline":          "a\nb",
		"C1 control":       "a\u0085b",
		"not UTF-8":        "a\xffb",
		"truncated UTF-8":  "\xe2\x82",
		"delete character": "a\x7f",
	}
	op, _ := newOp[int](t, guard.NewMemoryStore())
	for name, key := range refused {
		t.Run("refused "+name, func(t *testing.T) {
			var c counter
			_, err := op.Do(t.Context(), key, c.act)
			if !errors.Is(err, guard.ErrInvalidKey) || c.count() != 0 {
				t.Errorf("got %v after %d runs, want ErrInvalidKey and none", err, c.count())
			}
		})
	}
	for _, key := range []string{
		"💳", "e\u0301", "é", "a b", "a:b", "{a}", "%7B", "/", "a", strings.Repeat("a", 255), strings.Repeat("€", 85),
	} {
		t.Run("fine "+key, func(t *testing.T) {
			var c counter
			if _, err := op.Do(t.Context(), key, c.act); err != nil || c.count() != 1 {
				t.Errorf("got %v after %d runs, want a run", err, c.count())
			}
		})
	}
}

func TestCase_L7_AContextWhoseDeadlineIsNowIsExpired(t *testing.T) {
	store := newFaultyStore()
	op, rec := newOp[int](t, store)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	var c counter
	if _, err := op.Do(ctx, "order-1", c.act); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want DeadlineExceeded", err)
	}
	if c.count() != 0 || store.called(guard.PhaseReserve) != 0 {
		t.Error("nothing must run and nothing be reserved")
	}
	rec.wantOutcomes(t, guard.OutcomeCanceled)
}

func TestDo_CauseOfTheCancellationMatchesToo(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore())
	shutdown := errors.New("worker shuts down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(shutdown)
	_, err := op.Do(ctx, "order-1", new(counter).act)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, shutdown) {
		t.Errorf("got %v, want both the kind and the cause", err)
	}
}

func TestDo_NilArgumentsAreErrors(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore())
	if _, err := op.Do(t.Context(), "k", nil); err == nil {
		t.Error("a nil action must be an error")
	}
	if _, err := op.Do(nil, "k", new(counter).act); err == nil { //nolint:staticcheck // the bad input is the test
		t.Error("a nil context must be an error")
	}
	var none *guard.Operation[int]
	if _, err := none.Do(t.Context(), "k", new(counter).act); err == nil {
		t.Error("a nil operation must be an error")
	}
	if _, err := op.Do(t.Context(), "k", new(counter).act, nil); err != nil {
		t.Errorf("a nil call option must be ignored, got %v", err)
	}
}

func TestCase_R2_AResultThatDoesNotEncodeIsReturnedAndFreesTheKey(t *testing.T) {
	for name, value := range map[string]any{
		"channel": make(chan int), "function": func() {}, "NaN inside": map[string]any{"x": []any{nan()}},
		"panicking encoder": panicker{},
	} {
		t.Run(name, func(t *testing.T) { wantUnstored(t, value, guard.ReasonEncoding) })
	}
}

func TestCase_R4_AResultOverTheLimitIsReturnedAndFreesTheKey(t *testing.T) {
	wantUnstored(t, strings.Repeat("x", 20<<20), guard.ReasonTooLarge)
}

func wantUnstored(t *testing.T, value any, reason string) {
	t.Helper()
	store := guard.NewMemoryStore()
	op, rec := newOp[any](t, store)
	got, err := op.Do(t.Context(), "k", func(context.Context) (any, error) { return value, nil })
	if err != nil || got == nil {
		t.Fatalf("got %v, %v; want the value", got, err)
	}
	if status := load(t, store, "k").Record.Status; status != guard.StatusReleased {
		t.Errorf("record is %q, want released", status)
	}
	if rec.count(guard.EventUnstored) != 1 {
		t.Error("an unstored result must be counted")
	}
	for _, e := range rec.events {
		if e.Kind == guard.EventUnstored && e.Reason != reason {
			t.Errorf("reason %q, want %q", e.Reason, reason)
		}
	}
	rec.wantOutcomes(t, guard.OutcomeExecuted)
}

type panicker struct{}

func (panicker) MarshalJSON() ([]byte, error) { panic("no JSON today") }

func nan() float64 {
	zero := 0.0
	return zero / zero
}

func TestOnUnreadable_RefuseNeverRunsAgain(t *testing.T) {
	store := guard.NewMemoryStore()
	op, _ := newOp[int](t, store)
	if _, err := op.Do(t.Context(), "k", new(counter).act); err != nil {
		t.Fatal(err)
	}
	for name, codec := range map[string]guard.Codec{"other name": otherCodec{guard.JSON()}, "failing": failingCodec{guard.JSON()}} {
		t.Run(name, func(t *testing.T) {
			other, rec := newOp[int](t, store, guard.WithCodec(codec), guard.OnUnreadable(guard.Refuse))
			var c counter
			_, err := other.Do(t.Context(), "k", c.act)
			var storage *guard.StorageError
			if !errors.As(err, &storage) || storage.Class != guard.ClassEncoding || c.count() != 0 {
				t.Errorf("got %v after %d runs, want a storage error of class encoding and none", err, c.count())
			}
			rec.wantOutcomes(t, guard.OutcomeRejected)
		})
	}
}

type otherCodec struct{ guard.Codec }

func (otherCodec) Encoding() string { return "other" }

type failingCodec struct{ guard.Codec }

func (failingCodec) Unmarshal([]byte, any) error { return errors.New("key rotated away") }

func TestJSON_KeepsNumbersExactThroughAny(t *testing.T) {
	op, _ := newOp[any](t, guard.NewMemoryStore())
	act := func(context.Context) (any, error) { return map[string]any{"cents": int64(9007199254740993)}, nil }
	for range 2 {
		got, err := op.Do(t.Context(), "k", act)
		if err != nil {
			t.Fatal(err)
		}
		if s := fmt.Sprint(got.(map[string]any)["cents"]); s != "9007199254740993" {
			t.Errorf("got %s", s)
		}
	}
}
