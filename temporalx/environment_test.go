package temporalx_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// testEnv is the SDK's test environment with interceptors.
func testEnv(suite *testsuite.WorkflowTestSuite, in ...interceptor.WorkerInterceptor) *testsuite.TestActivityEnvironment {
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: in})
	return env
}

func register(env *testsuite.TestActivityEnvironment, name string, f any) {
	env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
}

// withContext is an interceptor in front of the guard that changes the context.
type withContext struct {
	interceptor.WorkerInterceptorBase
	change func(context.Context) context.Context
}

func (w *withContext) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &withContextInbound{interceptor.ActivityInboundInterceptorBase{Next: next}, w.change}
}

type withContextInbound struct {
	interceptor.ActivityInboundInterceptorBase
	change func(context.Context) context.Context
}

func (w *withContextInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	return w.Next.ExecuteActivity(w.change(ctx), in)
}

func TestCase_T5_ADeadlineThatIsPastReservesNothing(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	spy, seen := &spyStore{Store: guard.NewMemoryStore()}, &attempts{}
	late := &withContext{change: func(ctx context.Context) context.Context {
		ctx, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
		cancel()
		return ctx
	}}
	env := testEnv(&suite, seen, late, guarded(t, setup{store: spy}))
	register(env, "Charge", func(context.Context) error { t.Error("the activity ran"); return nil })
	if _, err := env.ExecuteActivity("Charge"); err == nil {
		t.Error("no error")
	}
	if err := seen.all()[0].err; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the context", err)
	}
	if asked := spy.reserved(); len(asked) != 0 {
		t.Errorf("reserved %v", asked)
	}
}

func TestCase_T7_AResultThatIsPendingGoesBackAsItIs(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	spy, seen := &spyStore{Store: guard.NewMemoryStore()}, &attempts{}
	env := testEnv(&suite, seen, guarded(t, setup{store: spy, rules: chargeByOrder(guard.OnInFlight(guard.Refuse))}))
	register(env, "Charge", func(context.Context, Order) (Receipt, error) {
		return Receipt{}, activity.ErrResultPending
	})
	for range 2 {
		_, _ = env.ExecuteActivity("Charge", Order{ID: "o-1"})
	}
	if first := seen.all()[0].err; first != activity.ErrResultPending { //nolint:errorlint // the SDK compares it like this
		t.Errorf("error %v, want activity.ErrResultPending itself", first)
	}
	if second := seen.all()[1].err; !errors.Is(second, guard.ErrInProgress) {
		t.Errorf("error %v, want the key reserved for the completion to come", second)
	}
	if len(spy.results) != 0 {
		t.Errorf("stored %q", spy.results)
	}
}

func TestCase_T8_OutsideAnActivityThereIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	in := guarded(t, setup{}).InterceptActivity(t.Context(), &interceptor.ActivityInboundInterceptorBase{})
	_, err := in.ExecuteActivity(t.Context(), &interceptor.ExecuteActivityInput{})
	if !errors.Is(err, guard.ErrInvalidKey) || !strings.Contains(err.Error(), "a key of your own") {
		t.Errorf("error %v, want that there is no key here and what to do", err)
	}
}

func TestCase_T8_InTheTestEnvironmentABusinessKeyReplays(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	var done effects
	env := testEnv(&suite, guarded(t, setup{rules: chargeByOrder()}))
	register(env, "Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	register(env, "Other", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	for _, want := range []struct{ name, charge string }{
		{"Charge", "charge-1"}, {"Charge", "charge-1"}, {"Other", "charge-2"}, {"Other", "charge-3"},
	} {
		value, err := env.ExecuteActivity(want.name, Order{ID: "o-1", Amount: 2})
		if err != nil {
			t.Fatal(err)
		}
		var got Receipt
		if err := value.Get(&got); err != nil || got != (Receipt{want.charge, 2}) {
			t.Errorf("%s: %+v, error %v, want %s", want.name, got, err, want.charge)
		}
	}
}

func TestError_OfTheActivityIsTheSameValue(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{
		"any error": errors.New("declined"),
		// An activity may use a guard of its own: that error is not ours to map.
		"an error of a guard":  &guard.InProgressError{Operation: "inner", RetryAfter: time.Hour},
		"an application error": temporal.NewApplicationError("declined", "Declined"),
		"a context's error":    context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			seen := &attempts{}
			env := testEnv(&suite, seen, guarded(t, setup{}))
			register(env, "Charge", func(context.Context) (Receipt, error) { return Receipt{Charge: "partly"}, want })
			_, _ = env.ExecuteActivity("Charge")
			got := seen.all()[0]
			if got.err != want { //nolint:errorlint // identical, not only matching
				t.Errorf("error %v, want %v", got.err, want)
			}
			if got.value != (Receipt{Charge: "partly"}) {
				t.Errorf("value %v, want the one beside the error", got.value)
			}
		})
	}
}

func TestCancel_OfAWaitingActivityIsACancelForTheSDK(t *testing.T) {
	t.Parallel()
	store := guard.NewMemoryStore()
	holding, release := make(chan struct{}), make(chan struct{})
	var suite, waiting testsuite.WorkflowTestSuite
	owner := testEnv(&suite, guarded(t, setup{store: store, rules: chargeByOrder()}))
	register(owner, "Charge", func(context.Context, Order) error { close(holding); <-release; return nil })
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = owner.ExecuteActivity("Charge", Order{ID: "o-1"}) }()
	<-holding
	defer func() { close(release); <-ended }()

	seen := &attempts{}
	canceled := &withContext{change: func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(20*time.Millisecond, func() { cancel(temporal.NewCanceledError("by the workflow")) })
		return ctx
	}}
	env := testEnv(&waiting, seen, canceled, guarded(t, setup{store: store, rules: chargeByOrder()}))
	register(env, "Charge", func(context.Context, Order) error { t.Error("the activity ran"); return nil })
	_, _ = env.ExecuteActivity("Charge", Order{ID: "o-1"})
	err := seen.all()[0].err
	if !errors.Is(err, context.Canceled) || !temporal.IsCanceledError(err) {
		t.Errorf("error %v, want the cancel and its cause", err)
	}
	if temporal.IsApplicationError(err) {
		t.Errorf("error %v, want no application error: the SDK would report a failure", err)
	}
}

func TestStoredResult_ThatDoesNotDecodeIsRetriedAndRunsNothing(t *testing.T) {
	t.Parallel()
	store := guard.NewMemoryStore()
	var done effects
	for i, data := range []converter.DataConverter{encrypting(t), encrypting(t)} { // each has a key of its own
		var suite testsuite.WorkflowTestSuite
		seen := &attempts{}
		env := testEnv(&suite, seen, guarded(t, setup{store: store, rules: chargeByOrder(), converter: data}))
		register(env, "Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
		_, _ = env.ExecuteActivity("Charge", Order{ID: "o-1"})
		err := seen.all()[0].err
		var app *temporal.ApplicationError
		switch {
		case i == 0 && err != nil:
			t.Fatal(err)
		case i == 1 && (!errors.As(err, &app) || app.Type() != temporalx.TypeStorage || app.NonRetryable()):
			t.Errorf("error %v, want a retryable %s", err, temporalx.TypeStorage)
		}
	}
	done.want(t, 1)
}

func TestLocalActivity_WithOneIDAndOtherArgumentsIsAMismatch(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	var done effects
	seen := &attempts{}
	env := testEnv(&suite, seen, guarded(t, setup{}))
	charge := func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil }
	register(env, "Charge", charge)
	// This environment gives all local activities one id, as two tries of a
	// workflow task may.
	for amount := range int64(2) {
		_, _ = env.ExecuteLocalActivity(charge, Order{ID: "o-1", Amount: amount})
	}
	if err := seen.all()[0].err; errors.Is(err, guard.ErrInvalidKey) {
		t.Skip("this version of the SDK tells its environment's local activities no type")
	}
	done.want(t, 1)
	if all := seen.all(); all[0].err != nil || !errors.Is(all[1].err, guard.ErrMismatch) {
		t.Errorf("errors %v and %v, want a mismatch in the second", all[0].err, all[1].err)
	}
}

// tenant is in the context of an activity, put there by a context propagator.
type tenant struct{}

// perTenant is a data converter with a key for each tenant.
type perTenant struct {
	converter.DataConverter
	tenants map[string]converter.DataConverter
}

func (p perTenant) WithContext(ctx context.Context) converter.DataConverter {
	if name, ok := ctx.Value(tenant{}).(string); ok {
		return p.tenants[name]
	}
	return p
}

func (p perTenant) WithWorkflowContext(workflow.Context) converter.DataConverter { return p }

func TestConverter_GetsTheContextOfTheActivity(t *testing.T) {
	t.Parallel()
	store := guard.NewMemoryStore()
	data := perTenant{converter.GetDefaultDataConverter(), map[string]converter.DataConverter{
		"a": encrypting(t), "b": encrypting(t),
	}}
	var done effects
	for _, tt := range []struct {
		tenant string
		fails  bool
	}{{"a", false}, {"a", false}, {"b", true}} {
		var suite testsuite.WorkflowTestSuite
		seen := &attempts{}
		as := &withContext{change: func(ctx context.Context) context.Context {
			return context.WithValue(ctx, tenant{}, tt.tenant)
		}}
		env := testEnv(&suite, seen, as, guarded(t, setup{store: store, rules: chargeByOrder(), converter: data}))
		register(env, "Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
		_, _ = env.ExecuteActivity("Charge", Order{ID: "o-1"})
		if err := seen.all()[0].err; (err != nil) != tt.fails {
			t.Errorf("tenant %s: error %v", tt.tenant, err)
		}
	}
	done.want(t, 1)
}
