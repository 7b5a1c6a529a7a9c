package temporalx_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// scenario is run by activities of the type "Charge" alone, and by workflows.
type scenario struct {
	rules  []temporalx.Rule
	orders []Order                                               // one call of the activity for each
	then   func(ctx context.Context, r Receipt) (Receipt, error) // the activity after its charge; default: it succeeds
	want   int32
}

func failsTheFirstAttempt(ctx context.Context, r Receipt) (Receipt, error) {
	if activity.GetInfo(ctx).Attempt == 1 {
		return Receipt{}, errors.New("after the charge")
	}
	return r, nil
}

func scenarios() map[string]scenario {
	one, two := Order{ID: "o-1"}, Order{ID: "o-2"}
	changed := Order{ID: "o-1", Amount: 7}
	return map[string]scenario{
		"one order, thrice, by its number":   {rules: chargeByOrder(), orders: []Order{one, one, one}, want: 1},
		"one order, thrice, by default":      {orders: []Order{one, one, one}, want: 3},
		"two orders":                         {rules: chargeByOrder(), orders: []Order{one, two, one, two}, want: 2},
		"another amount":                     {rules: chargeByOrder(), orders: []Order{one, changed, one}, want: 1},
		"no rule":                            {rules: []temporalx.Rule{{Activity: "Other"}}, orders: []Order{one, one}, want: 2},
		"a shared operation":                 {rules: []temporalx.Rule{{Prefix: "Ch", Operation: "pay", Key: byOrder}}, orders: []Order{one, one}, want: 1},
		"no valid key":                       {rules: chargeByOrder(), orders: []Order{{}, {}}, want: 0},
		"an error after the charge":          {rules: chargeByOrder(), orders: []Order{one, one}, then: failsTheFirstAttempt, want: 2},
		"an error after a charge, held":      {rules: payment(nil, guard.AtMostOnce()), orders: []Order{one, one}, then: failsTheFirstAttempt, want: 1},
		"a declined card that is remembered": {rules: payment(nil, guard.AtMostOnce(), guard.OnFailure(temporalx.RememberNonRetryable)), orders: []Order{one, one}, then: declinesAll, want: 1},
	}
}

func declinesAll(context.Context, Receipt) (Receipt, error) { return Receipt{}, declinedError() }

// activityOf counts what the scenario's activity does.
func (s scenario) activityOf(done *effects) func(context.Context, Order) (Receipt, error) {
	return func(ctx context.Context, o Order) (Receipt, error) {
		r := done.charge(o)
		if s.then == nil {
			return r, nil
		}
		return s.then(ctx, r)
	}
}

// chargesAll calls "Charge" for each order, whatever becomes of it.
func chargesAll(ctx workflow.Context, orders []Order) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second, RetryPolicy: retries(3),
	})
	for _, o := range orders {
		_ = workflow.ExecuteActivity(ctx, "Charge", o).Get(ctx, nil)
	}
	return nil
}

func TestParity_OnTheServerAndInTheTestEnvironmentsTheEffectsAreAsMany(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for where, run := range map[string]func(*testing.T) int32{
				"on the server": s.onServer, "in the workflow environment": s.inWorkflows, "in the activity environment": s.inActivities,
			} {
				if got := run(t); got != s.want {
					t.Errorf("%d effects %s, want %d", got, where, s.want)
				}
			}
		})
	}
}

func (s scenario) onServer(t *testing.T) int32 {
	t.Helper()
	var done effects
	b := newBench(t, setup{rules: s.rules})
	b.activity("Charge", s.activityOf(&done))
	b.Worker.RegisterWorkflow(chargesAll)
	b.start()
	if err := b.run(chargesAll, s.orders).Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return done.n.Load()
}

func (s scenario) inWorkflows(t *testing.T) int32 {
	t.Helper()
	var done effects
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{guarded(t, setup{rules: s.rules})}})
	env.RegisterActivityWithOptions(s.activityOf(&done), activity.RegisterOptions{Name: "Charge"})
	env.RegisterWorkflow(chargesAll)
	env.ExecuteWorkflow(chargesAll, s.orders)
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	return done.n.Load()
}

// inActivities makes the attempts itself, since that environment makes one of each call.
func (s scenario) inActivities(t *testing.T) int32 {
	t.Helper()
	var done effects
	var suite testsuite.WorkflowTestSuite
	env := testEnv(&suite, guarded(t, setup{rules: s.rules}))
	failed := false
	register(env, "Charge", func(ctx context.Context, o Order) (Receipt, error) {
		r := done.charge(o)
		if s.then == nil || failed {
			return r, nil
		}
		failed = true
		return s.then(ctx, r)
	})
	for _, o := range s.orders {
		_, _ = env.ExecuteActivity("Charge", o)
	}
	return done.n.Load()
}

// In the workflow environment the keys that a workflow sets come to its activities, its
// children and its next run as on the server.
func TestParity_KeysThatAreSetComeToTheActivitiesOfTheTestEnvironmentToo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		l    lineage
		want int32
	}{
		"inherited by children": {lineage{Inherit: true, Left: 2, Child: true}, 1},
		"not inherited":         {lineage{Left: 2, Child: true}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
			env := suite.NewTestWorkflowEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{guarded(t, setup{})}})
			env.RegisterActivityWithOptions(func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil },
				activity.RegisterOptions{Name: "Charge"})
			env.RegisterWorkflow(family)
			env.ExecuteWorkflow(family, test.l, true)
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			done.want(t, test.want)
		})
	}
}
