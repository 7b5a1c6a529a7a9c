package temporalx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// keysSeen collects what temporalx.Key says in activities.
type keysSeen struct {
	mu   sync.Mutex
	seen []string
}

func (k *keysSeen) note(ctx context.Context, _ Order) (Receipt, error) {
	key, err := temporalx.Key(ctx)
	if err != nil {
		key = "error: " + err.Error()
		if !errors.Is(err, guard.ErrInvalidKey) {
			key = "another " + key
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, key)
	return Receipt{}, nil
}

func TestKey_IsThatOfTheGuardOrTheOneSetOrTheDefaultKey(t *testing.T) {
	t.Parallel()
	if key, err := temporalx.Key(t.Context()); !errors.Is(err, guard.ErrInvalidKey) {
		t.Errorf("outside an activity: key %q, error %v", key, err)
	}
	other := []temporalx.Rule{{Activity: "Other"}}
	for name, test := range map[string]struct {
		rules  []temporalx.Rule
		charge keyedCharge
		want   string
	}{
		"guarded by its arguments":       {chargeByOrder(), keyedCharge{Unset: true, Order: Order{ID: "o-1"}}, "o-1"},
		"guarded by a key that is set":   {chargeByOrder(), keyedCharge{Key: "set"}, "set"},
		"guarded, a shared operation":    {[]temporalx.Rule{{Prefix: "Ch", Operation: "pay"}}, keyedCharge{Key: "set"}, "Charge/set"},
		"guarded by default":             {nil, keyedCharge{Unset: true}, "default/"},
		"guarded by default, local":      {nil, keyedCharge{Unset: true, Local: true}, "default/"},
		"unguarded":                      {other, keyedCharge{Unset: true}, "default/"},
		"unguarded, a key that is set":   {other, keyedCharge{Key: "set"}, "set"},
		"unguarded, local, set":          {other, keyedCharge{Key: "set", Local: true}, "set"},
		"unguarded, an empty key is set": {other, keyedCharge{}, "error: onceguard: invalid key: the workflow has set one that is empty or no UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var keys keysSeen
			b := newBench(t, setup{rules: test.rules})
			b.activity("Charge", keys.note)
			b.Worker.RegisterWorkflow(setsKey)
			b.start()
			get[Receipt](t, b.run(setsKey, test.charge))
			if len(keys.seen) != 1 || !strings.HasPrefix(keys.seen[0], test.want) {
				t.Fatalf("%q, want %q", keys.seen, test.want)
			}
			if test.want != "default/" && keys.seen[0] != test.want {
				t.Errorf("%q, want %q", keys.seen[0], test.want)
			}
		})
	}
}

func TestKey_GuardsOneCallInsideALargerActivity(t *testing.T) {
	t.Parallel()
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	charge, err := guard.NewOperation[Receipt](g, "payment.charge")
	if err != nil {
		t.Fatal(err)
	}
	var done, ran effects
	b := newBench(t, setup{rules: []temporalx.Rule{{Activity: "Other"}}})
	b.activity("Charge", func(ctx context.Context, o Order) (Receipt, error) {
		ran.charge(o)
		key, err := temporalx.Key(ctx)
		if err != nil {
			return Receipt{}, err
		}
		receipt, err := charge.Do(ctx, key, func(context.Context) (Receipt, error) { return done.charge(o), nil })
		if err == nil && activity.GetInfo(ctx).Attempt < 3 {
			return Receipt{}, errors.New("the rest of the activity failed")
		}
		return receipt, err
	})
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	if got := get[Receipt](t, b.run(chargeOnce, Order{ID: "o-1"})); got.Charge != "charge-1" {
		t.Errorf("got %+v", got)
	}
	ran.want(t, 3)
	done.want(t, 1)
}

// failsOnce is a workflow that fails after its charge in its first run.
func failsOnce(ctx workflow.Context, o Order, differs bool) (receipt Receipt, err error) {
	ctx = withID(withOptions(ctx), "charge")
	attempt := workflow.GetInfo(ctx).Attempt
	if differs {
		o.Amount = int64(attempt)
	}
	err = workflow.ExecuteActivity(ctx, "Charge", o).Get(ctx, &receipt)
	if err == nil && attempt < 2 {
		return receipt, fmt.Errorf("in the run %d", attempt)
	}
	return receipt, err
}

func TestWorkflowKey_WithOtherArgumentsUnderOneIDIsAMismatch(t *testing.T) {
	t.Parallel()
	for name, differs := range map[string]bool{"the same": false, "others": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			b := chargeBench(t, setup{rules: []temporalx.Rule{{Activity: "Charge", Key: temporalx.WorkflowKey()}}}, &done, failsOnce)
			run, err := b.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
				ID: b.id, TaskQueue: b.queue,
				RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Millisecond, MaximumAttempts: 2},
			}, failsOnce, Order{ID: "o-1"}, differs)
			if err != nil {
				t.Fatal(err)
			}
			if differs {
				wantError(t, run, temporalx.TypeMismatch, true)
			} else if got := get[Receipt](t, run); got.Charge != "charge-1" {
				t.Errorf("got %+v", got)
			}
			done.want(t, 1)
		})
	}
}

func TestWorkflowKey_NeedsAnActivityIDThatIsNotTheNumberOfAnEvent(t *testing.T) {
	t.Parallel()
	var done effects
	b := chargeBench(t, setup{rules: []temporalx.Rule{{Activity: "Charge", Key: temporalx.WorkflowKey()}}}, &done, chargeOnce, setsKey)
	wantError(t, b.run(chargeOnce, Order{ID: "o-1"}), temporalx.TypeInvalidKey, true)
	done.want(t, 0)
	wantError(t, b.run(setsKey, keyedCharge{Unset: true, Local: true}), temporalx.TypeInvalidKey, true) // it has nothing but a count
	get[Receipt](t, b.run(setsKey, keyedCharge{Key: "set"}))                                            // in place of the rule's
	done.want(t, 1)
}
