package tracing

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/telemetry"
	"github.com/onceguard/onceguard/temporalx"
)

func TestMain(m *testing.M) { realtest.Main(m) }

// Order is what the activity charges.
type Order struct{ ID string }

func orderID(o Order) (string, error) { return o.ID, nil }

// placement is where the SDK's tracing interceptor is.
type placement int

const (
	onClient    placement = iota // the client's interceptors: the SDK puts it in front of the worker's
	onWorker                     // the worker's interceptors, with the guard's plugin
	behindGuard                  // the worker's interceptors, behind that of the guard
	nowhere
)

// setup is what a test changes.
type setup struct {
	tracing  placement
	store    guard.Store // default a memory store
	options  []guard.OperationOption
	recovery temporalx.Recovery
	between  []interceptor.WorkerInterceptor // behind tracing and in front of the guard
}

// lab is a worker and a client on the real server whose spans are kept in memory. The activity
// "Charge" is guarded by the order's id.
type lab struct {
	t        *testing.T
	client   client.Client
	worker   worker.Worker
	queue    string
	provider *sdktrace.TracerProvider
	spans    *tracetest.InMemoryExporter
	order    Order
	charges  atomic.Int32
}

func newLab(t *testing.T, s setup) *lab {
	t.Helper()
	server := realtest.SharedTemporal(t)
	l := &lab{t: t, queue: t.Name(), order: Order{ID: "o-1"}, spans: tracetest.NewInMemoryExporter()}
	l.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(l.spans))
	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: l.provider.Tracer("temporal")})
	if err != nil {
		t.Fatal(err)
	}
	var clientOptions client.Options
	var workerOptions worker.Options
	switch s.tracing {
	case onClient:
		clientOptions.Interceptors = []interceptor.ClientInterceptor{tracing}
		workerOptions.Interceptors = s.between
		workerOptions.Plugins = []worker.Plugin{l.plugin(s)}
	case onWorker:
		workerOptions.Interceptors = append([]interceptor.WorkerInterceptor{tracing}, s.between...)
		workerOptions.Plugins = []worker.Plugin{l.plugin(s)}
	case behindGuard:
		workerOptions.Interceptors = append(s.between, l.plugin(s).Interceptor(), tracing)
	case nowhere:
		workerOptions.Plugins = []worker.Plugin{l.plugin(s)}
	}
	l.client = server.Dial(t, clientOptions)
	l.worker = worker.New(l.client, l.queue, workerOptions)
	l.worker.RegisterWorkflow(charge)
	return l
}

// plugin makes the guard's, with spans.
func (l *lab) plugin(s setup) *temporalx.Plugin {
	l.t.Helper()
	tel, err := telemetry.New(telemetry.Options{TracerProvider: l.provider})
	if err != nil {
		l.t.Fatal(err)
	}
	if s.store == nil {
		s.store = guard.NewMemoryStore()
	}
	g, err := guard.New(s.store, guard.WithObserver(tel))
	if err != nil {
		l.t.Fatal(err)
	}
	p, err := temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "Charge", Key: temporalx.KeyFrom(orderID), Options: s.options, Recovery: s.recovery,
		}},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

// start runs the worker with an activity "Charge".
func (l *lab) start(f func(context.Context, Order) (string, error)) {
	l.t.Helper()
	l.worker.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: "Charge"})
	if err := l.worker.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(l.worker.Stop)
}

// pay is an activity that has an effect, in a span of its own.
func (l *lab) pay(ctx context.Context, _ Order) (string, error) {
	_, span := l.provider.Tracer("application").Start(ctx, "pay")
	defer span.End()
	l.charges.Add(1)
	return "paid", nil
}

// wantOneCharge wants that the effect has happened once.
func (l *lab) wantOneCharge() {
	l.t.Helper()
	if n := l.charges.Load(); n != 1 {
		l.t.Errorf("%d charges, want 1", n)
	}
}

// charge is a workflow that calls "Charge" so many times, one after the other.
func charge(ctx workflow.Context, o Order, times int, startToClose time.Duration) (last string, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: startToClose,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: 5},
	})
	for range times {
		if err := workflow.ExecuteActivity(ctx, "Charge", o).Get(ctx, &last); err != nil {
			return "", err
		}
	}
	return last, nil
}

// begin starts the workflow "charge".
func (l *lab) begin(ctx context.Context, times int, startToClose time.Duration) client.WorkflowRun {
	l.t.Helper()
	run, err := l.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: l.queue + "/" + uuid.NewString(), TaskQueue: l.queue,
	}, charge, l.order, times, startToClose)
	if err != nil {
		l.t.Fatal(err)
	}
	return run
}

// end waits for a workflow that must succeed.
func (l *lab) end(run client.WorkflowRun) {
	l.t.Helper()
	var got string
	if err := run.Get(l.t.Context(), &got); err != nil || got != "paid" {
		l.t.Fatalf("%q, error %v, want a payment", got, err)
	}
}

// losesReplies is an interceptor in front of the guard that loses what the first attempt answers:
// the guard has the result, the server gets an error.
type losesReplies struct {
	interceptor.WorkerInterceptorBase
}

func (*losesReplies) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &losesRepliesInbound{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type losesRepliesInbound struct {
	interceptor.ActivityInboundInterceptorBase
}

func (i *losesRepliesInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	value, err := i.Next.ExecuteActivity(ctx, in)
	if activity.GetInfo(ctx).Attempt == 1 {
		return nil, temporal.NewApplicationError("the reply is lost", "Lost")
	}
	return value, err
}

// named returns the spans of a name, in the order in which they started.
func (l *lab) named(name string) []tracetest.SpanStub {
	var found []tracetest.SpanStub
	for _, span := range l.spans.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	slices.SortFunc(found, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return found
}
