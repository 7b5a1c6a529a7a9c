package temporalx_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/temporalx"
)

// TestMain runs more tests at once than there are processors, since most of them wait for
// the server most of the time. -parallel goes before that.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	realtest.Main(m)
}

// Order is what the activities of the tests are asked to charge.
type Order struct {
	ID     string
	Amount int64
}

// Receipt is what they return.
type Receipt struct {
	Charge string
	Amount int64
}

func orderID(o Order) (string, error) { return o.ID, nil }

// chargeByOrder guards the activity "Charge" by a business key.
func chargeByOrder(options ...guard.OperationOption) []temporalx.Rule {
	return []temporalx.Rule{{Activity: "Charge", Key: temporalx.KeyFrom(orderID), Options: options}}
}

// effects counts what the activities did to the world.
type effects struct{ n atomic.Int32 }

func (e *effects) charge(o Order) Receipt {
	return Receipt{Charge: fmt.Sprintf("charge-%d", e.n.Add(1)), Amount: o.Amount}
}

func (e *effects) want(t *testing.T, n int32) {
	t.Helper()
	if got := e.n.Load(); got != n {
		t.Errorf("%d effects, want %d", got, n)
	}
}

// bench is a worker on the real server, with a task queue of its own.
type bench struct {
	t      *testing.T
	client client.Client
	queue  string
	id     string
	Worker worker.Worker
	seen   *attempts
	guard  *temporalx.Interceptor
}

type setup struct {
	store     guard.Store // default a memory store
	options   []guard.GuardOption
	rules     []temporalx.Rule
	exclude   []string
	limit     int                        // of operations
	converter converter.DataConverter    // default the SDK's
	failures  converter.FailureConverter // default none
	guards    converter.DataConverter    // the interceptor's, if it is not the client's

	before interceptor.WorkerInterceptor // the guard's, unless nil

	forgotten bool // the client's failure converter, in the options of the interceptor
}

func guarded(t *testing.T, s setup) *temporalx.Interceptor {
	t.Helper()
	g, options := s.build(t)
	in, err := temporalx.New(g, options)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// build makes the guard, and the options of an interceptor or a plugin.
func (s setup) build(t *testing.T) (*guard.Guard, temporalx.Options) {
	t.Helper()
	if s.store == nil {
		s.store = guard.NewMemoryStore()
	}
	if s.converter == nil {
		s.converter = converter.GetDefaultDataConverter()
	}
	g, err := guard.New(s.store, s.options...)
	if err != nil {
		t.Fatal(err)
	}
	options := temporalx.Options{
		DataConverter: s.converter, FailureConverter: s.failures, Rules: s.rules, Exclude: s.exclude, MaxOperations: s.limit,
	}
	if s.guards != nil {
		options.DataConverter = s.guards
	}
	if s.forgotten {
		options.FailureConverter = nil
	}
	return g, options
}

// newBench returns a worker that is not started: register, then Start.
func newBench(t *testing.T, s setup) *bench {
	t.Helper()
	server := realtest.SharedTemporal(t)
	b := &bench{
		t: t, client: server.Client(), queue: t.Name(), id: t.Name() + "/" + uuid.NewString(),
		seen: &attempts{}, guard: guarded(t, s),
	}
	if s.converter != nil {
		b.client = server.Dial(t, client.Options{DataConverter: s.converter, FailureConverter: s.failures})
	}
	chain := []interceptor.WorkerInterceptor{b.seen, b.guard}
	if s.before != nil {
		chain = []interceptor.WorkerInterceptor{b.seen, s.before, b.guard}
	}
	b.Worker = worker.New(b.client, b.queue, worker.Options{
		Interceptors:                           chain,
		DisableRegistrationAliasing:            true,
		MaxConcurrentActivityTaskPollers:       2,
		MaxConcurrentWorkflowTaskPollers:       2,
		MaxConcurrentActivityExecutionSize:     20,
		MaxConcurrentWorkflowTaskExecutionSize: 20,
	})
	return b
}

func (b *bench) start() {
	b.t.Helper()
	if err := b.Worker.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.Worker.Stop)
}

func (b *bench) activity(name string, f any) {
	b.Worker.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
}

// run starts a workflow with an id of its own.
func (b *bench) run(wf any, args ...any) client.WorkflowRun {
	b.t.Helper()
	run, err := b.client.ExecuteWorkflow(b.t.Context(), client.StartWorkflowOptions{
		ID: b.id + "/" + uuid.NewString(), TaskQueue: b.queue,
	}, wf, args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return run
}

// get waits for a workflow's result.
func get[T any](t *testing.T, run client.WorkflowRun) (value T) {
	t.Helper()
	if err := run.Get(t.Context(), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// wantError waits for a workflow that fails because of an application error.
func wantError(t *testing.T, run client.WorkflowRun, errorType string, nonRetryable bool) {
	t.Helper()
	err := run.Get(t.Context(), nil)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) { // of a local activity without an ActivityError around it
		t.Fatalf("the workflow ended with %v, want an application error of its activity", err)
	}
	if app.Type() != errorType || app.NonRetryable() != nonRetryable {
		t.Errorf("type %q, non-retryable %t, want %q, %t: %v",
			app.Type(), app.NonRetryable(), errorType, nonRetryable, app)
	}
}

// retries is a policy of short pauses. No limit when n is 0.
func retries(n int32) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1, MaximumAttempts: n}
}

// chargeOnce is a workflow that calls "Charge", with few attempts.
func chargeOnce(ctx workflow.Context, order Order) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second, RetryPolicy: retries(3),
	})
	err = workflow.ExecuteActivity(ctx, "Charge", order).Get(ctx, &receipt)
	return receipt, err
}

// attempts is an interceptor in front of the guard that remembers what it saw.
type attempts struct {
	interceptor.WorkerInterceptorBase
	begin chan struct{} // told of each attempt that begins, unless nil
	mu    sync.Mutex
	list  []attempt
}

type attempt struct {
	number  int32
	started time.Time
	ended   time.Time
	value   any
	err     error
}

func (a *attempts) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &attemptsInbound{interceptor.ActivityInboundInterceptorBase{Next: next}, a}
}

type attemptsInbound struct {
	interceptor.ActivityInboundInterceptorBase
	seen *attempts
}

func (a *attemptsInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	seen := attempt{number: activity.GetInfo(ctx).Attempt, started: time.Now()}
	if a.seen.begin != nil {
		a.seen.begin <- struct{}{}
	}
	seen.value, seen.err = a.Next.ExecuteActivity(ctx, in)
	seen.ended = time.Now()
	a.seen.mu.Lock()
	defer a.seen.mu.Unlock()
	a.seen.list = append(a.seen.list, seen)
	return seen.value, seen.err
}

// all returns the attempts in the order in which they ended.
func (a *attempts) all() []attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]attempt(nil), a.list...)
}

// spyStore remembers what a store was asked, and fails if told so.
type spyStore struct {
	guard.Store
	replaced chan guard.Key // told of each result that is stored, unless nil
	mu       sync.Mutex
	keys     []guard.Key
	results  [][]byte
	fail     error
}

func (s *spyStore) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	s.mu.Lock()
	s.keys = append(s.keys, req.Key)
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		return guard.ReserveReply{}, fail
	}
	return s.Store.Reserve(ctx, req)
}

func (s *spyStore) Replace(ctx context.Context, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	s.mu.Lock()
	s.results = append(s.results, req.Result)
	s.mu.Unlock()
	reply, err := s.Store.Replace(ctx, req)
	if s.replaced != nil {
		s.replaced <- req.Key
	}
	return reply, err
}

func (s *spyStore) reserved() []guard.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]guard.Key(nil), s.keys...)
}
