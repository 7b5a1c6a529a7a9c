package overhead

import (
	"context"
	"log/slog"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
	"github.com/onceguard/onceguard/temporalx"
)

// Order is what the activity takes, Receipt what it returns.
type (
	Order   struct{ ID string }
	Receipt struct{ Charge string }
)

func charge(_ context.Context, o Order) (Receipt, error) { return Receipt{Charge: o.ID}, nil }

func orderID(o Order) (string, error) { return o.ID, nil }

// guards are the workers that are compared, by the name of the benchmark.
var guards = []struct {
	name    string
	rule    string // the activity type that is guarded; without one there is no interceptor
	next    func() func() Order
	observe func(testing.TB) guard.Observer // nil for none
}{
	{name: "bare", next: fresh},
	{name: "no-rule", rule: "Other", next: fresh},
	{name: "executed", rule: "Charge", next: fresh},
	{name: "replayed", rule: "Charge", next: same},
	{name: "executed-metrics", rule: "Charge", next: fresh, observe: metrics},
	{name: "executed-metrics-spans", rule: "Charge", next: fresh, observe: spans},
}

// fresh are orders that were not seen before: each has its effect.
func fresh() func() Order {
	n := 0
	return func() Order { n++; return Order{ID: "order-" + strconv.Itoa(n)} }
}

// same is one order: the first has its effect, the others are replays.
func same() func() Order { return func() Order { return Order{ID: "order-1"} } }

func metrics(tb testing.TB) guard.Observer {
	tb.Helper()
	return observer(tb, telemetry.Options{Registerer: prometheus.NewRegistry()})
}

// spans are recorded, and exported nowhere.
func spans(tb testing.TB) guard.Observer {
	tb.Helper()
	return observer(tb, telemetry.Options{
		Registerer: prometheus.NewRegistry(), TracerProvider: sdktrace.NewTracerProvider(),
	})
}

func observer(tb testing.TB, o telemetry.Options) guard.Observer {
	tb.Helper()
	tel, err := telemetry.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return tel
}

// interceptors are those of a worker with a rule for an activity type.
func interceptors(tb testing.TB, rule string, observe func(testing.TB) guard.Observer) []interceptor.WorkerInterceptor {
	tb.Helper()
	if rule == "" {
		return nil
	}
	var options []guard.GuardOption
	if observe != nil {
		options = append(options, guard.WithObserver(observe(tb)))
	}
	g, err := guard.New(guard.NewMemoryStore(), options...)
	if err != nil {
		tb.Fatal(err)
	}
	in, err := temporalx.New(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules:         []temporalx.Rule{{Activity: rule, Key: temporalx.KeyFrom(orderID)}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return []interceptor.WorkerInterceptor{in}
}

// environment is the SDK's, which does what a worker does with an activity task: arguments are
// decoded, the interceptors called, the result is encoded.
func environment(in ...interceptor.WorkerInterceptor) *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: in})
	return env
}

// BenchmarkActivity is a whole activity, in the SDK's test environment.
func BenchmarkActivity(b *testing.B) {
	for _, g := range guards {
		b.Run(g.name, func(b *testing.B) {
			env, next := environment(interceptors(b, g.rule, g.observe)...), g.next()
			env.RegisterActivityWithOptions(charge, activity.RegisterOptions{Name: "Charge"})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := env.ExecuteActivity("Charge", next()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// function is the end of a chain of interceptors.
type function struct {
	interceptor.ActivityInboundInterceptorBase
}

func (*function) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	return charge(ctx, in.Args[0].(Order))
}

// BenchmarkChain is the call of the interceptors alone, in the context of an activity.
func BenchmarkChain(b *testing.B) {
	for _, g := range guards {
		b.Run(g.name, func(b *testing.B) {
			env, next := environment(), g.next()
			all := interceptors(b, g.rule, g.observe)
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				var chain interceptor.ActivityInboundInterceptor = &function{}
				for _, in := range all {
					chain = in.InterceptActivity(ctx, chain)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := chain.ExecuteActivity(ctx, &interceptor.ExecuteActivityInput{Args: []any{next()}}); err != nil {
						return err
					}
				}
				return nil
			}, activity.RegisterOptions{Name: "Charge"})
			if _, err := env.ExecuteActivity("Charge"); err != nil {
				b.Fatal(err)
			}
		})
	}
}
