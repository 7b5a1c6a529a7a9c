package temporalx_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

func foundNothing(context.Context, guard.Evidence) (Receipt, guard.Finding, error) {
	return Receipt{}, guard.CannotTell, nil
}

func TestNew_SaysWhatIsWrongWithItsOptions(t *testing.T) {
	t.Parallel()
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	dc := converter.GetDefaultDataConverter()
	var typedNil *converter.CompositeDataConverter
	tests := map[string]struct {
		guard   *guard.Guard
		options temporalx.Options
		want    []string
	}{
		"no guard, no converter": {
			want: []string{"guard is nil", "converter.GetDefaultDataConverter()"},
		},
		"a typed nil converter": {
			guard: g, options: temporalx.Options{DataConverter: typedNil},
			want: []string{"data converter is nil"},
		},
		"a guard that no New made": {
			guard: &guard.Guard{}, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{{Activity: "A"}}},
			want: []string{`new operation "A"`},
		},
		"numbers of waiting that are none": {
			guard: g, options: temporalx.Options{DataConverter: dc, MaxWaiting: -1, WaitMargin: -time.Second},
			want: []string{"max waiting -1", "guard.Refuse", "wait margin -1s"},
		},
		"an unnamed activity": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{{}}},
			want: []string{"give exactly one"},
		},
		"two rules, a nil function": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{
				{Activity: "A"}, {Activity: "A", Key: temporalx.KeyFrom[string](nil)},
			}},
			want: []string{`activity "A" has rule 0 already`, "function of KeyFrom is nil"},
		},
		"options of two operations": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{
				{Activity: "A", Options: []guard.OperationOption{guard.WithLease(-time.Second)}},
				{Activity: "B", Options: []guard.OperationOption{nil}},
			}},
			want: []string{`"A"`, "lease -1s", `"B"`, "option 0 is nil"},
		},
		"a hook of the result's type among the options": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{{
				Activity: "A", Options: []guard.OperationOption{guard.ForPayments(), guard.WithRecovery(foundNothing)},
			}}},
			want: []string{"temporalx.RecoverWith", "WithRecovery finds results of temporalx_test.Receipt"},
		},
		"a hook of both kinds": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{{
				Activity: "A", Recovery: temporalx.RecoverWith(foundNothing),
				Options: []guard.OperationOption{guard.ForPayments(), guard.WithRecovery(foundNothing)},
			}}},
			want: []string{"temporalx.RecoverWith"},
		},
		"a nil hook": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{{
				Activity: "A", Recovery: temporalx.RecoverWith[Receipt](nil),
			}}},
			want: []string{"function of RecoverWith is nil"},
		},
		"an error codec": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{{
				Activity: "A", Options: []guard.OperationOption{
					guard.OnFailure(temporalx.RememberNonRetryable), guard.WithErrorCodec(guard.NamedErrors(nil)),
				},
			}}},
			want: []string{"WithErrorCodec: codec \"temporal-payloads\" encodes errors too"},
		},
		"a payment without a word about unknown outcomes": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{{
				Activity: "A", Options: []guard.OperationOption{guard.ForPayments()},
			}}},
			want: []string{"add AtMostOnce()"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, err := temporalx.New(tt.guard, tt.options)
			if err == nil || in != nil {
				t.Fatalf("interceptor %v, error %v, want an error alone", in, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q: nothing about %q", err, want)
				}
			}
		})
	}
}

func TestNew_TakesTheGuardsOptionsAsDefaultsOfAllActivities(t *testing.T) {
	t.Parallel()
	g, err := guard.New(guard.NewMemoryStore(), guard.ForPayments(), guard.AtMostOnce(),
		guard.OnFailure(temporalx.RememberNonRetryable), guard.WithErrorCodec(guard.NamedErrors(nil)))
	if err != nil {
		t.Fatal(err)
	}
	in, err := temporalx.New(g, temporalx.Options{DataConverter: converter.GetDefaultDataConverter()})
	if err != nil {
		t.Fatal(err)
	}
	var suite testsuite.WorkflowTestSuite
	seen := &attempts{}
	env := testEnv(&suite, seen, in)
	register(env, "Charge", func(context.Context) error { return declinedError() })
	for range 2 {
		_, _ = env.ExecuteActivity("Charge")
	}
	for i, a := range seen.all() {
		var app *temporal.ApplicationError
		if !errors.As(a.err, &app) || app.Type() != "CardDeclined" {
			t.Errorf("call %d: %v, want the application error", i, a.err)
		}
	}
}

// madeOperations counts the operations that are made.
type madeOperations struct {
	guard.Observer
	n atomic.Int32
}

func (m *madeOperations) Operation(guard.OperationInfo) guard.OperationObserver {
	m.n.Add(1)
	return nil
}

func TestOperation_IsMadeOncePerActivityTypeByManyCalls(t *testing.T) {
	t.Parallel()
	made := &madeOperations{}
	in := guarded(t, setup{options: []guard.GuardOption{guard.WithObserver(made)}})
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			var suite testsuite.WorkflowTestSuite
			env := testEnv(&suite, in)
			register(env, "Charge", func(context.Context) error { return nil })
			register(env, "Refund", func(context.Context) error { return nil })
			for _, name := range []string{"Charge", "Refund"} {
				if _, err := env.ExecuteActivity(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	if n := made.n.Load(); n != 2 {
		t.Errorf("%d operations, want 2", n)
	}
}
