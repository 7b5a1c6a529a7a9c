package temporalx_test

import (
	"context"
	"fmt"
	"log/slog"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
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
