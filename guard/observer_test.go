package guard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// badObserver panics in the method of that name.
type badObserver struct{ in string }

func (b badObserver) at(method string) {
	if b.in == method {
		panic("observer: " + method)
	}
}

func (b badObserver) Operation(guard.OperationInfo) guard.OperationObserver {
	b.at("Operation")
	return b
}

func (b badObserver) Call(ctx context.Context, _ guard.CallInfo) (context.Context, guard.CallObserver) {
	b.at("Call")
	if b.in == "nil" {
		return nil, nil
	}
	return ctx, badCall{b}
}

type badCall struct{ badObserver }

func (b badCall) TraceParent() string                { b.at("TraceParent"); return "" }
func (b badCall) Event(context.Context, guard.Event) { b.at("Event") }
func (b badCall) End(guard.CallEnd)                  { b.at("End") }
func (b badCall) Phase(ctx context.Context, _ guard.Phase) (context.Context, guard.PhaseObserver) {
	b.at("Phase")
	return ctx, badPhase(b)
}

type badPhase struct{ badObserver }

func (b badPhase) End(guard.PhaseEnd) { b.at("PhaseEnd") }

func TestObserver_APanicInOneIsContained(t *testing.T) {
	for _, method := range []string{"Operation", "Call", "nil", "TraceParent", "Event", "End", "Phase", "PhaseEnd"} {
		synctest.Test(t, func(t *testing.T) {
			g, err := guard.New(guard.NewMemoryStore(), guard.WithObserver(badObserver{in: method}))
			if err != nil {
				t.Fatal(err)
			}
			op, err := guard.NewOperation[int](g, "payment.charge")
			if err != nil {
				t.Fatal(err)
			}
			c := slow(25 * time.Second)
			for range 2 {
				if got, err := op.Do(t.Context(), "k", c.act); got != 1 || err != nil {
					t.Errorf("panic in %s: got %d, %v", method, got, err)
				}
			}
		})
	}
}

func TestObserver_SeesEveryPhaseInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore())
		call := start(t.Context(), op, "k", slow(25*time.Second).act)
		time.Sleep(24 * time.Second)
		if _, err := op.Do(t.Context(), "k", new(counter).act); err != nil {
			t.Fatal(err)
		}
		<-call
		want := []string{"reserve:acquired", "renew:ok", "renew:ok", "reserve:pending", "replace:stored", "wait:replayed"}
		if len(rec.phases) != len(want) {
			t.Fatalf("phases %q, want %q", rec.phases, want)
		}
		for i := range want {
			if rec.phases[i] != want[i] {
				t.Errorf("phases %q, want %q", rec.phases, want)
				break
			}
		}
	})
}
