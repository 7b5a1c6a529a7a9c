package temporalx_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// All activities of a worker are guarded, each attempt of an activity by the
// key of its execution.
func ExampleNew() {
	g, err := guard.New(guard.NewMemoryStore()) // in production redisx.New
	if err != nil {
		fmt.Println(err)
		return
	}
	guarded, err := temporalx.New(g, temporalx.Options{DataConverter: converter.GetDefaultDataConverter()})
	if err != nil {
		fmt.Println(err)
		return
	}
	options := worker.Options{Interceptors: []interceptor.WorkerInterceptor{guarded}}
	fmt.Println(len(options.Interceptors), "interceptor for worker.New")

	_, err = temporalx.New(g, temporalx.Options{})
	fmt.Println(err)
	// Output:
	// 1 interceptor for worker.New
	// onceguard: temporalx.New: data converter is nil: give the one of the client, or converter.GetDefaultDataConverter() if the client has none
}

// The plugin notices a rule whose activity nobody has registered, before the worker takes a
// task.
func ExampleNewPlugin() {
	g, err := guard.New(guard.NewMemoryStore()) // in production redisx.New
	if err != nil {
		fmt.Println(err)
		return
	}
	plugin, err := temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules:         []temporalx.Rule{{Activity: "ChargeCrad"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.NewLazyClient(client.Options{Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	w := worker.New(c, "payments", worker.Options{Plugins: []worker.Plugin{plugin}})
	w.RegisterActivityWithOptions(func(context.Context, string) error { return nil },
		activity.RegisterOptions{Name: "ChargeCard"})
	fmt.Println(w.Start())
	// Output:
	// onceguard: the rules do not fit the activities of this worker: rule 0: activity "ChargeCrad" is for no activity that is registered, or an earlier rule or Exclude has it; registered are ["ChargeCard"]
}

// An order is charged once, whichever workflow or run asks for it.
func ExampleKeyFrom() {
	type Order struct {
		ID    string
		Cents int
	}
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		fmt.Println(err)
		return
	}
	guarded, err := temporalx.New(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "ChargeCard",
			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
			Options:  []guard.OperationOption{guard.OnStorageError(guard.FailClosed)},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	// In place of a worker, the SDK's test environment.
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{guarded}})
	charges := 0
	env.RegisterActivityWithOptions(func(_ context.Context, o Order) (string, error) {
		charges++
		return fmt.Sprintf("charge %d of %s", charges, o.ID), nil
	}, activity.RegisterOptions{Name: "ChargeCard"})

	for range 2 {
		result, err := env.ExecuteActivity("ChargeCard", Order{ID: "order-4711", Cents: 995})
		if err != nil {
			fmt.Println(err)
			return
		}
		var receipt string
		if err := result.Get(&receipt); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(receipt)
	}
	// Output:
	// charge 1 of order-4711
	// charge 1 of order-4711
}

// A charge whose outcome nobody knows is settled by somebody who has found out, here
// in place of a workflow that calls an activity for it.
func ExampleInterceptor_Resolve() {
	type Order struct{ ID string }
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		fmt.Println(err)
		return
	}
	guarded, err := temporalx.New(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "ChargeCard",
			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
			Options:  []guard.OperationOption{guard.ForPayments(), guard.AtMostOnce()},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{guarded}})
	env.RegisterActivityWithOptions(func(context.Context, Order) (string, error) {
		fmt.Println("the request is out")
		return "", errors.New("connection reset")
	}, activity.RegisterOptions{Name: "ChargeCard"})

	for range 2 {
		_, err := env.ExecuteActivity("ChargeCard", Order{ID: "order-4711"})
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != temporalx.TypeOutcomeUnknown {
			fmt.Println("the first attempt:", err)
			continue
		}
		var unknown temporalx.OutcomeUnknown
		if err := app.Details(&unknown); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("the second: nobody knows what became of %s of %s\n", unknown.Operation, unknown.Key)
		// The provider's list of today says that the charge has happened.
		err = guarded.Resolve(context.Background(), unknown.Operation, unknown.Key, guard.Resolution[any]{
			Fence: unknown.Fence, As: guard.StatusCompleted, Value: "receipt 815",
		})
		fmt.Println("resolved:", err == nil)
	}

	result, err := env.ExecuteActivity("ChargeCard", Order{ID: "order-4711"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var receipt string
	if err := result.Get(&receipt); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("from then on:", receipt)
	// Output:
	// the request is out
	// the first attempt: activity error (type: ChargeCard, scheduledEventID: 0, startedEventID: 0, identity: ): connection reset
	// the second: nobody knows what became of ChargeCard of order-4711
	// resolved: true
	// from then on: receipt 815
}

// The next attempt after one that was lost asks the provider, before it charges.
func ExampleRecoverWith() {
	type Order struct{ ID string }
	type Receipt struct{ Charge string }
	// charges stands for the provider's API.
	charges := func(ctx context.Context, order string, fence int64) (Receipt, bool, error) {
		fmt.Println("asked for", order, "with a fence:", fence > 0)
		return Receipt{Charge: "charge-1"}, true, ctx.Err()
	}
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = temporalx.New(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "ChargeCard",
			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
			Options: []guard.OperationOption{
				guard.ForPayments(), guard.OnFailure(temporalx.RememberNonRetryable),
			},
			Recovery: temporalx.RecoverWith(func(ctx context.Context, lost guard.Evidence) (Receipt, guard.Finding, error) {
				// From this fence on the provider refuses the lost run's, so "none" is final.
				receipt, found, err := charges(ctx, lost.Key.Name, lost.Fence)
				switch {
				case err != nil:
					return Receipt{}, guard.CannotTell, err
				case found:
					return receipt, guard.Found, nil
				default:
					return Receipt{}, guard.NotFound, nil
				}
			}),
		}},
	})
	fmt.Println("guarded:", err == nil)
	// Output: guarded: true
}
