package temporalx_test

import (
	"context"
	"errors"
	"testing"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

func TestMismatch_FailsTheWorkflowAtOnce(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{rules: chargeByOrder()})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	get[Receipt](t, b.run(chargeOnce, Order{ID: "o-1", Amount: 1}))
	wantError(t, b.run(chargeOnce, Order{ID: "o-1", Amount: 2}), temporalx.TypeMismatch, true)
	done.want(t, 1)
	if seen := b.seen.all(); len(seen) != 2 || !errors.Is(seen[1].err, guard.ErrMismatch) {
		t.Errorf("attempts %+v, want two, the second refused for a mismatch", seen)
	}
}

func TestStorageError_IsRetriedAndRunsNothingWhenTheOperationFailsClosed(t *testing.T) {
	t.Parallel()
	var done effects
	spy := &spyStore{Store: guard.NewMemoryStore(), fail: errors.New("no route to the store")}
	b := newBench(t, setup{store: spy, rules: chargeByOrder(guard.OnStorageError(guard.FailClosed))})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	wantError(t, b.run(chargeOnce, Order{ID: "o-1"}), temporalx.TypeStorage, false)
	done.want(t, 0)
	if seen := b.seen.all(); len(seen) != 3 || !errors.Is(seen[2].err, spy.fail) {
		t.Errorf("attempts %+v, want three, with the store's error as the cause", seen)
	}
}

func TestKey_ThatCannotBeMadeFailsTheWorkflowBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	keys := map[string]temporalx.KeyFunc{
		"another type":  temporalx.KeyFrom(func(s string) (string, error) { return s, nil }),
		"a pointer":     temporalx.KeyFrom(func(o *Order) (string, error) { return o.ID, nil }),
		"an error":      temporalx.KeyFrom(func(Order) (string, error) { return "", errors.New("no number yet") }),
		"an empty key":  temporalx.KeyFrom(func(Order) (string, error) { return "", nil }),
		"a control key": temporalx.KeyFrom(func(Order) (string, error) { return "a\nb", nil }),
	}
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			spy := &spyStore{Store: guard.NewMemoryStore()}
			b := newBench(t, setup{store: spy, rules: []temporalx.Rule{{Activity: "Charge", Key: key}}})
			b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
			b.Worker.RegisterWorkflow(chargeOnce)
			b.start()
			wantError(t, b.run(chargeOnce, Order{ID: "o-1"}), temporalx.TypeInvalidKey, true)
			done.want(t, 0)
			if seen, asked := b.seen.all(), spy.reserved(); len(seen) != 1 || len(asked) != 0 {
				t.Errorf("%d attempts, %d reserves, want 1 and 0", len(seen), len(asked))
			}
		})
	}
}
