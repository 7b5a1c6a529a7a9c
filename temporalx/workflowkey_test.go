package temporalx_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// withOptions gives a workflow's context what its activities need, local or not.
func withOptions(ctx workflow.Context) workflow.Context {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: 10 * time.Second, RetryPolicy: retries(3),
	})
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second, RetryPolicy: retries(3),
	})
}

// withID names the activities that are executed with the context.
func withID(ctx workflow.Context, id string) workflow.Context {
	options := workflow.GetActivityOptions(ctx)
	options.ActivityID = id
	return workflow.WithActivityOptions(ctx, options)
}

// keyedCharge is what setsKey charges.
type keyedCharge struct {
	Key   string
	Unset bool // do not set a key
	Local bool
	Order Order
}

// setsKey is a workflow that sets the key of its charge.
func setsKey(ctx workflow.Context, c keyedCharge) (receipt Receipt, err error) {
	ctx = withOptions(ctx)
	if !c.Unset {
		ctx = temporalx.WithKey(ctx, c.Key)
	}
	execute := workflow.ExecuteActivity
	if c.Local {
		execute = workflow.ExecuteLocalActivity
	}
	err = execute(ctx, "Charge", c.Order).Get(ctx, &receipt)
	return receipt, err
}

// chargeBench is a started worker that charges, and has these workflows.
func chargeBench(t *testing.T, s setup, done *effects, workflows ...any) *bench {
	t.Helper()
	b := newBench(t, s)
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	for _, wf := range workflows {
		b.Worker.RegisterWorkflow(wf)
	}
	b.start()
	return b
}

func TestWithKey_GoesBeforeTheKeyOfTheRule(t *testing.T) {
	t.Parallel()
	var done effects
	spy := &spyStore{Store: guard.NewMemoryStore()}
	b := chargeBench(t, setup{store: spy, rules: chargeByOrder()}, &done, setsKey)
	for _, c := range []keyedCharge{
		{Key: "invoice-7", Order: Order{ID: "o-1"}},
		{Key: "invoice-8", Order: Order{ID: "o-1"}},
		{Unset: true, Order: Order{ID: "o-1"}},
		{Key: "o-1", Order: Order{ID: "o-1"}}, // the business key, by another way
	} {
		get[Receipt](t, b.run(setsKey, c))
	}
	done.want(t, 3)
	var names []string
	for _, key := range spy.reserved() {
		names = append(names, key.Operation+" "+key.Name)
	}
	if want := []string{"Charge invoice-7", "Charge invoice-8", "Charge o-1", "Charge o-1"}; !slices.Equal(names, want) {
		t.Errorf("keys %q, want %q", names, want)
	}
}

func TestWithKey_OfTwoWorkflowsIsOneEffectForOneOrderAndAMismatchForAnother(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		local bool
		rules []temporalx.Rule
	}{
		"activity": {}, "local activity": {local: true}, "shared operation": {rules: []temporalx.Rule{{Prefix: "Ch", Operation: "pay"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			b := chargeBench(t, setup{rules: test.rules}, &done, setsKey)
			c := keyedCharge{Key: "invoice-7", Local: test.local, Order: Order{ID: "o-1", Amount: 5}}
			first, second := get[Receipt](t, b.run(setsKey, c)), get[Receipt](t, b.run(setsKey, c))
			if want := (Receipt{"charge-1", 5}); first != want || second != want {
				t.Errorf("first %+v, second %+v, want %+v", first, second, want)
			}
			c.Order.Amount = 6
			wantError(t, b.run(setsKey, c), temporalx.TypeMismatch, true)
			done.want(t, 1)
		})
	}
}

func TestWithKey_OneThatIsNotValidFailsTheActivityAtOnce(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"empty": "", "a newline": "a\nb", "too long": strings.Repeat("k", 256)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			b := chargeBench(t, setup{rules: chargeByOrder()}, &done, setsKey)
			wantError(t, b.run(setsKey, keyedCharge{Key: key, Order: Order{ID: "o-1"}}), temporalx.TypeInvalidKey, true)
			wantError(t, b.run(setsKey, keyedCharge{Key: key, Local: true}), temporalx.TypeInvalidKey, true)
			done.want(t, 0)
			if seen := b.seen.all(); len(seen) != 2 {
				t.Errorf("%d attempts, want one of each", len(seen))
			}
		})
	}
}

// lineage is how a key comes from one workflow to the next.
type lineage struct {
	Inherit bool
	Left    int // how many runs or children come after this one
	Child   bool
	Update  bool // the charge is made by the handler of an update
	Own     string
}

// family charges in every workflow of a lineage. Only the first one sets the key.
func family(ctx workflow.Context, l lineage, first bool) error {
	ctx = withOptions(ctx)
	if first {
		set := temporalx.WithKey
		if l.Inherit {
			set = temporalx.WithInheritedKey
		}
		ctx = set(ctx, "family")
	}
	charging := ctx
	if l.Own != "" && !first {
		charging = temporalx.WithKey(ctx, l.Own)
	}
	if err := workflow.ExecuteActivity(charging, "Charge", Order{ID: "o-1"}).Get(ctx, nil); err != nil {
		return err
	}
	if l.Left == 0 {
		return nil
	}
	l.Left--
	if l.Child {
		return workflow.ExecuteChildWorkflow(ctx, family, l, false).Get(ctx, nil)
	}
	return workflow.NewContinueAsNewError(ctx, family, l, false)
}

func TestWithInheritedKey_GoesToChildrenAndNextRunsAndWithKeyDoesNot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lineage
		want int32
	}{
		"into children":                {lineage{Inherit: true, Left: 2, Child: true}, 1},
		"over runs":                    {lineage{Inherit: true, Left: 2}, 1},
		"not into children":            {lineage{Left: 2, Child: true}, 3},
		"not over runs":                {lineage{Left: 1}, 2},
		"a child that sets another":    {lineage{Inherit: true, Left: 2, Child: true, Own: "own"}, 2},
		"a next run that sets another": {lineage{Inherit: true, Left: 1, Own: "own"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			b := chargeBench(t, setup{}, &done, family)
			if err := b.run(family, test.lineage, true).Get(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			done.want(t, test.want)
		})
	}
}

// continuesWithOptions continues as new by the other function for that.
func continuesWithOptions(ctx workflow.Context, again bool) error {
	ctx = withOptions(ctx)
	if again {
		ctx = temporalx.WithInheritedKey(ctx, "family")
	}
	if err := workflow.ExecuteActivity(ctx, "Charge", Order{ID: "o-1"}).Get(ctx, nil); err != nil || !again {
		return err
	}
	return workflow.NewContinueAsNewErrorWithOptions(ctx, workflow.ContinueAsNewErrorOptions{}, continuesWithOptions, false)
}

func TestWithInheritedKey_GoesOverContinueAsNewWithOptions(t *testing.T) {
	t.Parallel()
	var done effects
	b := chargeBench(t, setup{}, &done, continuesWithOptions)
	if err := b.run(continuesWithOptions, true).Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	done.want(t, 1)
}

// parentOfUpdated charges with a key that its child inherits.
func parentOfUpdated(ctx workflow.Context, child string) error {
	ctx = temporalx.WithInheritedKey(withOptions(ctx), "family")
	if err := workflow.ExecuteActivity(ctx, "Charge", Order{ID: "o-1"}).Get(ctx, nil); err != nil {
		return err
	}
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: child})
	return workflow.ExecuteChildWorkflow(ctx, updated).Get(ctx, nil)
}

// updated charges in the handler of an update, and then ends.
func updated(ctx workflow.Context) error {
	over := false
	err := workflow.SetUpdateHandler(ctx, "charge", func(ctx workflow.Context) (receipt Receipt, err error) {
		ctx = withOptions(ctx)
		err = workflow.ExecuteActivity(ctx, "Charge", Order{ID: "o-1"}).Get(ctx, &receipt)
		over = true
		return receipt, err
	})
	if err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return over })
}

func TestWithInheritedKey_HoldsInTheHandlerOfAnUpdate(t *testing.T) {
	t.Parallel()
	var done effects
	b := chargeBench(t, setup{}, &done, parentOfUpdated, updated)
	child := b.id + "/child"
	parent := b.run(parentOfUpdated, child)
	var update client.WorkflowUpdateHandle
	for update == nil {
		var err error
		update, err = b.client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: child, UpdateName: "charge", WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err != nil && !strings.Contains(err.Error(), "not found") {
			t.Fatal(err)
		}
	}
	var receipt Receipt
	if err := update.Get(t.Context(), &receipt); err != nil || receipt.Charge != "charge-1" {
		t.Errorf("%+v, error %v, want the parent's charge", receipt, err)
	}
	if err := parent.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	done.want(t, 1)
}

// historyOf returns the history of a workflow that has ended.
func (b *bench) historyOf(run client.WorkflowRun) *history.History {
	b.t.Helper()
	all := &history.History{}
	events := b.client.GetWorkflowHistory(b.t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			b.t.Fatal(err)
		}
		all.Events = append(all.Events, event)
	}
	return all
}

// The keys are in headers, which are no part of what a replay compares: a history of
// before may be replayed by a worker that has the interceptor, and one that has them by a
// worker without it.
func TestWithKey_AHistoryIsReplayedWithAndWithoutTheInterceptor(t *testing.T) {
	t.Parallel()
	var done effects
	b := chargeBench(t, setup{}, &done, setsKey, family)
	var histories []*history.History
	for _, run := range []client.WorkflowRun{
		b.run(setsKey, keyedCharge{Key: "k"}), b.run(setsKey, keyedCharge{Key: "k", Local: true}),
		b.run(family, lineage{Inherit: true, Left: 1}, true), b.run(family, lineage{Inherit: true, Left: 1, Child: true}, true),
	} {
		first := b.client.GetWorkflow(t.Context(), run.GetID(), run.GetRunID())
		if err := run.Get(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		histories = append(histories, b.historyOf(first))
	}
	for name, options := range map[string]worker.WorkflowReplayerOptions{
		"interceptor": {Interceptors: []interceptor.WorkerInterceptor{guarded(t, setup{})}},
		"plugin":      {Plugins: []worker.Plugin{newPlugin(t, setup{rules: chargeByOrder()}, nil)}},
		"neither":     {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replayer, err := worker.NewWorkflowReplayerWithOptions(options)
			if err != nil {
				t.Fatal(err)
			}
			replayer.RegisterWorkflow(setsKey)
			replayer.RegisterWorkflow(family)
			for i, h := range histories {
				if err := replayer.ReplayWorkflowHistory(nil, h); err != nil {
					t.Errorf("history %d: %v", i, err)
				}
			}
		})
	}
}

// setsAnother has an inherited key, sets another one for an activity, and continues as new.
func setsAnother(ctx workflow.Context, again bool) error {
	ctx = withOptions(ctx)
	if !again {
		ctx = temporalx.WithInheritedKey(ctx, workflow.GetInfo(ctx).WorkflowExecution.ID)
	}
	if err := workflow.ExecuteActivity(ctx, "Charge", Order{ID: "o-1"}).Get(ctx, nil); err != nil || again {
		return err
	}
	ctx = temporalx.WithKey(ctx, "another of "+workflow.GetInfo(ctx).WorkflowExecution.ID)
	if err := workflow.ExecuteActivity(ctx, "Charge", Order{ID: "o-2"}).Get(ctx, nil); err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, setsAnother, true)
}

func TestWithKey_DoesNotEndTheInheritanceOfAnotherKey(t *testing.T) {
	t.Parallel()
	var done effects
	b := chargeBench(t, setup{}, &done, setsAnother)
	if err := b.run(setsAnother, false).Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	done.want(t, 2) // the run that follows has the inherited key
}
