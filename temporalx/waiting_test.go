package temporalx_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/temporalx"
)

// occupied is a bench on a store where another process has the key of order "o-1" until the
// test ends.
type occupied struct {
	*bench
	done  effects
	begin chan struct{} // of attempts
	free  func()
}

func newOccupied(t *testing.T, s setup) *occupied {
	t.Helper()
	s.store, s.rules = redisStore(t), chargeByOrder()
	o := &occupied{bench: newBench(t, s), begin: make(chan struct{}, 100)}
	o.seen.begin = o.begin
	o.free = occupy(t, s.store)
	o.activity("Charge", func(_ context.Context, order Order) (Receipt, error) { return o.done.charge(order), nil })
	o.Worker.RegisterWorkflow(approve)
	return o
}

// occupy owns the key of order "o-1" until it is freed, or the test ends.
func occupy(t *testing.T, store guard.Store) (free func()) {
	t.Helper()
	g, err := guard.New(store)
	if err != nil {
		t.Fatal(err)
	}
	op, err := guard.NewOperation[string](g, "Charge")
	if err != nil {
		t.Fatal(err)
	}
	began, end, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = op.Do(context.WithoutCancel(t.Context()), "o-1", func(context.Context) (string, error) {
			close(began)
			<-end
			return "", errors.New("declined: the key is free again")
		}, guard.WithInput([]any{Order{ID: "o-1"}}))
	}()
	<-began
	free = func() {
		select {
		case <-end:
		default:
			close(end)
		}
		<-gone
	}
	t.Cleanup(free)
	return free
}

func TestWaiting_AnActivityThatWaitsOutlivesItsHeartbeatTimeout(t *testing.T) {
	t.Parallel()
	o := newOccupied(t, setup{})
	o.start()
	run := o.run(approve, Order{ID: "o-1"}, time.Minute, 2*time.Second)
	<-o.begin
	time.Sleep(5 * time.Second)
	o.free()
	get[Receipt](t, run)
	if seen := o.seen.all(); len(seen) != 1 {
		t.Errorf("%d attempts, want one that has waited; the first ended with %v", len(seen), seen[0].err)
	}
	o.done.want(t, 1)
}

// A server that is told by the heartbeats of a waiting attempt that it is over tells the attempt.
func TestWaiting_IsWokenByWhatHappensToTheActivity(t *testing.T) {
	t.Parallel()
	const heartbeat = 1500 * time.Millisecond
	for name, test := range map[string]struct {
		happens func(*occupied, client.WorkflowRun) error
		after   func(*occupied, client.WorkflowRun) error
		want    func(error) bool
		runs    bool // again, when the key is free
	}{
		"cancel": {
			func(o *occupied, run client.WorkflowRun) error {
				return o.client.CancelWorkflow(o.t.Context(), run.GetID(), "")
			}, nil, temporal.IsCanceledError, false,
		},
		"pause": {(*occupied).pause, (*occupied).unpause, canceledBy(activity.ErrActivityPaused), true},
		"reset": {(*occupied).reset, nil, canceledBy(activity.ErrActivityReset), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOccupied(t, setup{})
			o.start()
			run := o.run(approve, Order{ID: "o-1"}, time.Minute, heartbeat)
			<-o.begin
			if err := test.happens(o, run); err != nil {
				t.Fatal(err)
			}
			happened := time.Now()
			eventually(t, "the attempt is woken", func() bool { return len(o.seen.all()) > 0 })
			first := o.seen.all()[0]
			if took := first.ended.Sub(happened); took > 2*heartbeat {
				t.Errorf("woken after %s, want it with the next heartbeat", took)
			}
			if !test.want(first.err) {
				t.Errorf("the attempt ended with %v", first.err)
			}
			o.free()
			if test.after != nil {
				if err := test.after(o, run); err != nil {
					t.Fatal(err)
				}
			}
			err := run.Get(t.Context(), nil)
			if test.runs != (err == nil) {
				t.Errorf("the workflow ended with %v", err)
			}
			if test.runs {
				o.done.want(t, 1)
			} else {
				o.done.want(t, 0)
			}
		})
	}
}

// canceledBy wants a retryable error that says why.
func canceledBy(cause error) func(error) bool {
	return func(err error) bool {
		var app *temporal.ApplicationError
		return errors.As(err, &app) && app.Type() == temporalx.TypeCanceled && !app.NonRetryable() && errors.Is(err, cause)
	}
}

func (o *occupied) execution(run client.WorkflowRun) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()}
}

func (o *occupied) pause(run client.WorkflowRun) error {
	_, err := o.client.WorkflowService().PauseActivity(o.t.Context(), &workflowservice.PauseActivityRequest{
		Namespace: "default", Execution: o.execution(run), Activity: &workflowservice.PauseActivityRequest_Id{Id: "approval"},
	})
	return err
}

func (o *occupied) unpause(run client.WorkflowRun) error {
	_, err := o.client.WorkflowService().UnpauseActivity(o.t.Context(), &workflowservice.UnpauseActivityRequest{
		Namespace: "default", Execution: o.execution(run), Activity: &workflowservice.UnpauseActivityRequest_Id{Id: "approval"},
	})
	return err
}

func (o *occupied) reset(run client.WorkflowRun) error {
	_, err := o.client.WorkflowService().ResetActivity(o.t.Context(), &workflowservice.ResetActivityRequest{
		Namespace: "default", Execution: o.execution(run), Activity: &workflowservice.ResetActivityRequest_Id{Id: "approval"},
	})
	return err
}

// The SDK ends the context of an attempt only when the stop timeout has passed.
func TestWaiting_IsWokenWhenTheWorkerStops(t *testing.T) {
	t.Parallel()
	store := redisStore(t)
	free := occupy(t, store)
	stops := &bench{t: t, client: realtest.SharedTemporal(t).Client(), queue: t.Name(), id: t.Name(), seen: &attempts{begin: make(chan struct{}, 10)}}
	stops.Worker = worker.New(stops.client, stops.queue, worker.Options{
		WorkerStopTimeout: 15 * time.Second, DisableRegistrationAliasing: true,
		Interceptors: []interceptor.WorkerInterceptor{stops.seen, guarded(t, setup{store: store, rules: chargeByOrder()})},
	})
	stops.activity("Charge", func(context.Context, Order) (Receipt, error) { return Receipt{}, errors.New("ran") })
	stops.Worker.RegisterWorkflow(approve)
	if err := stops.Worker.Start(); err != nil {
		t.Fatal(err)
	}
	run := stops.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	<-stops.seen.begin
	stopped := time.Now()
	stops.Worker.Stop()
	eventually(t, "the attempt is woken", func() bool { return len(stops.seen.all()) == 1 })
	first := stops.seen.all()[0]
	if !canceledBy(context.Canceled)(first.err) || !strings.Contains(first.err.Error(), "the worker stops") {
		t.Errorf("the attempt ended with %v, want a retryable %s that says why", first.err, temporalx.TypeCanceled)
	}
	if took := first.ended.Sub(stopped); took > 2*time.Second {
		t.Errorf("woken after %s", took)
	}
	free()
	var done effects
	other := newBench(t, setup{store: store, rules: chargeByOrder()})
	other.activity("Charge", func(_ context.Context, order Order) (Receipt, error) { return done.charge(order), nil })
	other.Worker.RegisterWorkflow(approve)
	other.start()
	get[Receipt](t, run)
	done.want(t, 1)
}

// One key, twenty workflows, four slots: two wait, and another activity gets a slot at once.
func TestWaiting_NeverFillsTheSlotsOfAWorker(t *testing.T) {
	t.Parallel()
	store := redisStore(t)
	free := occupy(t, store)
	plugin := newPlugin(t, setup{store: store, rules: chargeByOrder()}, nil)
	b := &bench{t: t, client: realtest.SharedTemporal(t).Client(), queue: t.Name(), id: t.Name(), seen: &attempts{begin: make(chan struct{}, 100)}}
	b.Worker = worker.New(b.client, b.queue, worker.Options{
		MaxConcurrentActivityExecutionSize: 4, Plugins: []worker.Plugin{plugin}, DisableEagerActivities: true,
		Interceptors: []interceptor.WorkerInterceptor{b.seen},
	})
	var done effects
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	b.activity("Ping", func(context.Context) error { return nil })
	ping := func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
		return workflow.ExecuteActivity(ctx, "Ping").Get(ctx, nil)
	}
	b.Worker.RegisterWorkflowWithOptions(ping, workflow.RegisterOptions{Name: "ping"})
	b.Worker.RegisterWorkflow(approve)
	b.start()
	var runs []client.WorkflowRun
	for range 20 {
		runs = append(runs, b.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat))
	}
	eventually(t, "all but two were refused", func() bool { return len(b.seen.all()) >= 18 })
	if n := len(b.seen.begin) - len(b.seen.all()); n != 2 {
		t.Errorf("%d wait, want half of 4 slots", n)
	}
	began := time.Now()
	if err := b.run("ping").Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("another activity got its slot after %s", took)
	}
	delays := map[time.Duration]bool{}
	for _, a := range b.seen.all() {
		if app, ok := errors.AsType[*temporal.ApplicationError](a.err); ok {
			delays[app.NextRetryDelay()] = true
			if app.Type() != temporalx.TypeInProgress || app.NextRetryDelay() < time.Second {
				t.Errorf("refused with %v", a.err)
			}
		}
	}
	if len(delays) < 10 {
		t.Errorf("the delays of those who were refused are %v, want them spread", delays)
	}
	free()
	for _, run := range runs[:1] {
		get[Receipt](t, run)
	}
	for _, run := range runs[1:] {
		_ = b.client.TerminateWorkflow(t.Context(), run.GetID(), "", "the test is over")
	}
	done.want(t, 1)
}

func TestWaiting_ALocalActivityWaitsToo(t *testing.T) {
	t.Parallel()
	o := newOccupied(t, setup{})
	local := func(ctx workflow.Context) (receipt Receipt, err error) {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
			StartToCloseTimeout: 30 * time.Second, RetryPolicy: retries(1),
		})
		err = workflow.ExecuteLocalActivity(ctx, "Charge", Order{ID: "o-1"}).Get(ctx, &receipt)
		return receipt, err
	}
	o.Worker.RegisterWorkflowWithOptions(local, workflow.RegisterOptions{Name: "local"})
	o.start()
	run := o.run("local")
	<-o.begin
	time.Sleep(time.Second)
	o.done.want(t, 0)
	o.free()
	get[Receipt](t, run)
	o.done.want(t, 1)
}

// The margin is what the activity takes: one that cannot wait long enough for it does not wait at all.
func TestWaiting_LeavesTheMarginThatIsSet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		margin, atLeast, atMost time.Duration
		delayed                 bool
	}{
		"most of the attempt":      {18 * time.Second, time.Second, 4 * time.Second, false},
		"more than there is of it": {time.Minute, 0, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := redisStore(t)
			occupy(t, store)
			g, options := setup{store: store, rules: chargeByOrder()}.build(t)
			options.WaitMargin = test.margin
			plugin, err := temporalx.NewPlugin(g, options)
			if err != nil {
				t.Fatal(err)
			}
			b := &bench{t: t, client: realtest.SharedTemporal(t).Client(), queue: t.Name(), id: t.Name(), seen: &attempts{}}
			b.Worker = worker.New(b.client, b.queue, worker.Options{
				Plugins: []worker.Plugin{plugin}, Interceptors: []interceptor.WorkerInterceptor{b.seen},
			})
			b.activity("Charge", func(context.Context, Order) (Receipt, error) { return Receipt{}, errors.New("ran") })
			b.Worker.RegisterWorkflow(approve)
			b.start()
			run := b.run(approve, Order{ID: "o-1"}, 20*time.Second, noHeartbeat)
			eventually(t, "the attempt is refused", func() bool { return len(b.seen.all()) > 0 })
			first := b.seen.all()[0]
			var app *temporal.ApplicationError
			if !errors.As(first.err, &app) || app.Type() != temporalx.TypeInProgress || app.NextRetryDelay() > 0 != test.delayed {
				t.Errorf("the attempt ended with %v", first.err)
			}
			if took := first.ended.Sub(first.started); took < test.atLeast || took > test.atMost {
				t.Errorf("refused after %s, want between %s and %s", took, test.atLeast, test.atMost)
			}
			_ = b.client.TerminateWorkflow(t.Context(), run.GetID(), "", "the test is over")
		})
	}
}
