package guard_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func TestLease_ItsEndIsNoticedWhenItComesAlsoWhenRenewalsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, _ := newOp[int](t, store, guard.WithStoreTimeout(9*time.Second), guard.WithCancelOnLost())
		store.set(hangs, guard.PhaseRenew)
		began := time.Now()
		var ended time.Time
		_, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended = time.Now()
			return 0, context.Cause(ctx)
		})
		if after := ended.Sub(began); !errors.Is(err, guard.ErrLeaseLost) || after != lease {
			t.Errorf("got %v after %s, want the loss at the end of the lease", err, after)
		}
	})
}

func TestLease_TheResultIsEncodedUnderTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore(), guard.WithCodec(slowCodec{guard.JSON()}), guard.OnInFlight(guard.Refuse))
		call := start(t.Context(), op, "order-1", new(counter).act)
		for range 89 {
			time.Sleep(time.Second)
			if _, err := op.Do(t.Context(), "order-1", new(counter).act); !errors.Is(err, guard.ErrInProgress) {
				t.Fatalf("got %v, want refused while the result is encoded", err)
			}
		}
		if r := <-call; r.err != nil || r.Stale || rec.count(guard.EventLost) != 0 {
			t.Errorf("got %+v", r)
		}
	})
}

// slowCodec asks a remote service that takes three leases.
type slowCodec struct{ guard.Codec }

func (c slowCodec) Marshal(v any) ([]byte, error) {
	time.Sleep(3 * lease)
	return c.Codec.Marshal(v)
}

func TestLease_AnEncoderThatExitsItsGoroutineFreesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, rec := newOp[int](t, store, guard.WithCodec(exitingCodec{guard.JSON()}))
		go func() { _, _ = op.Do(context.Background(), "order-1", new(counter).act) }()
		synctest.Wait()
		wantReleased(t, store, rec)
	})
}

type exitingCodec struct{ guard.Codec }

func (exitingCodec) Marshal(any) ([]byte, error) { runtime.Goexit(); return nil, nil }

func TestLease_AnObserverThatExitsItsGoroutineDoesNotEndTheRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := guard.New(guard.NewMemoryStore(), guard.WithObserver(exitingObserver{&recorder{}}), guard.OnInFlight(guard.Refuse))
		if err != nil {
			t.Fatal(err)
		}
		op, err := guard.NewOperation[int](g, "payment.charge")
		if err != nil {
			t.Fatal(err)
		}
		call := start(t.Context(), op, "order-1", slow(3*lease).act)
		for range 80 {
			time.Sleep(time.Second)
			if _, err := op.Do(t.Context(), "order-1", new(counter).act); !errors.Is(err, guard.ErrInProgress) {
				t.Fatalf("got %v, want the lease kept", err)
			}
		}
		if r := <-call; r.err != nil {
			t.Error(r.err)
		}
	})
}

// exitingObserver does in renewals what t.FailNow does.
type exitingObserver struct{ *recorder }

func (o exitingObserver) Operation(guard.OperationInfo) guard.OperationObserver { return o }

func (o exitingObserver) Call(ctx context.Context, _ guard.CallInfo) (context.Context, guard.CallObserver) {
	return ctx, o
}

func (o exitingObserver) Phase(ctx context.Context, p guard.Phase) (context.Context, guard.PhaseObserver) {
	if p == guard.PhaseRenew {
		return ctx, exitingPhase{}
	}
	return o.recorder.Phase(ctx, p)
}

type exitingPhase struct{}

func (exitingPhase) End(guard.PhaseEnd) { runtime.Goexit() }
