package temporalx_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
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
	o.free = occupy(t, s.store, "o-1")
	o.activity("Charge", func(_ context.Context, order Order) (Receipt, error) { return o.done.charge(order), nil })
	o.Worker.RegisterWorkflow(approve)
	return o
}

// occupy owns a key until it is freed, or the test ends.
func occupy(t *testing.T, store guard.Store, order string) (free func()) {
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
		_, _ = op.Do(context.WithoutCancel(t.Context()), order, func(context.Context) (string, error) {
			close(began)
			<-end
			return "", errors.New("declined: the key is free again")
		}, guard.WithInput([]any{Order{ID: order}}))
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

// Attempt 1 heartbeats and fails, attempt 2 waits and heartbeats past its timeout, attempt 3 reads.
func TestCase_T15_HeartbeatDetailsSurviveAnAttemptThatWaits(t *testing.T) {
	t.Parallel()
	for name, details := range map[string][]any{
		"none": nil, "two": {map[string]int64{"batch": 1<<53 + 1}, "cursor"}, "nine": {1, 2, 3, 4, 5, 6, 7, 8, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := redisStore(t)
			b := newBench(t, setup{store: store, rules: chargeByOrder()})
			begin := make(chan struct{}, 100)
			b.seen.begin = begin
			read := make(chan []string, 1)
			b.activity("Charge", func(ctx context.Context, _ Order) (Receipt, error) {
				switch activity.GetInfo(ctx).Attempt {
				case 1:
					if details != nil {
						activity.RecordHeartbeat(ctx, details...)
					}
					return Receipt{}, temporal.NewApplicationErrorWithOptions("try again", "again",
						temporal.ApplicationErrorOptions{NextRetryDelay: time.Second})
				case 2:
					activity.RecordHeartbeat(ctx) // must not come to this: the key is occupied
					return Receipt{}, errors.New("ran")
				}
				read <- shown(ctx)
				return Receipt{}, nil
			})
			b.Worker.RegisterWorkflow(approve)
			b.start()
			run := b.run(approve, Order{ID: "o-1"}, 4*time.Second, 1500*time.Millisecond)
			<-begin
			eventually(t, "the first attempt has failed", func() bool { return len(b.seen.all()) == 1 })
			free := occupy(t, store, "o-1")
			<-begin
			eventually(t, "the second attempt was refused in time", func() bool { return len(b.seen.all()) == 2 })
			if err := b.seen.all()[1].err; !errors.Is(err, guard.ErrInProgress) {
				t.Errorf("the second attempt ended with %v, want ErrInProgress after a wait", err)
			}
			free()
			get[Receipt](t, run)
			want := []string{}
			for _, d := range details {
				want = append(want, shownValue(t, d))
			}
			if got := <-read; !slices.Equal(got, want) {
				t.Errorf("the third attempt reads %q, want %q", got, want)
			}
		})
	}
}

// shown are the heartbeat details that the server has, as they are encoded.
func shown(ctx context.Context) []string {
	raw, into := make([]converter.RawValue, 16), make([]any, 16)
	for i := range raw {
		into[i] = &raw[i]
	}
	if !activity.HasHeartbeatDetails(ctx) || activity.GetHeartbeatDetails(ctx, into...) != nil {
		return []string{}
	}
	texts := []string{}
	for i := range raw {
		if raw[i].Payload() != nil {
			texts = append(texts, string(raw[i].Payload().GetData()))
		}
	}
	return texts
}

func shownValue(t *testing.T, value any) string {
	t.Helper()
	payload, err := converter.GetDefaultDataConverter().ToPayload(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(payload.GetData())
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

func TestWaiting_IsWokenWhenTheWorkerStops(t *testing.T) {
	t.Parallel()
	o := newOccupied(t, setup{})
	if err := o.Worker.Start(); err != nil {
		t.Fatal(err)
	}
	run := o.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	<-o.begin
	stopped := time.Now()
	o.Worker.Stop()
	eventually(t, "the attempt is woken", func() bool { return len(o.seen.all()) == 1 })
	first := o.seen.all()[0]
	var app *temporal.ApplicationError
	if !errors.As(first.err, &app) || app.Type() != temporalx.TypeCanceled || app.NonRetryable() {
		t.Errorf("the attempt ended with %v, want a retryable %s", first.err, temporalx.TypeCanceled)
	}
	if took := first.ended.Sub(stopped); took > 2*time.Second {
		t.Errorf("woken after %s", took)
	}
	if err := o.client.TerminateWorkflow(t.Context(), run.GetID(), "", "the test is over"); err != nil {
		t.Error(err)
	}
}

// One key, twenty workflows, four slots: two wait, and another activity gets a slot at once.
func TestWaiting_NeverFillsTheSlotsOfAWorker(t *testing.T) {
	t.Parallel()
	store := redisStore(t)
	free := occupy(t, store, "o-1")
	plugin := newPlugin(t, setup{store: store, rules: chargeByOrder()}, nil)
	b := &bench{t: t, client: realtest.SharedTemporal(t).Client(), queue: t.Name(), id: t.Name(), seen: &attempts{}}
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

// heartbeats is an interceptor that sees the heartbeats of the attempts, the guard's too.
type heartbeats struct {
	interceptor.WorkerInterceptorBase
	all, dead atomic.Int32
}

type heartbeatsInbound struct {
	interceptor.ActivityInboundInterceptorBase
	seen *heartbeats
}

type heartbeatsOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	seen *heartbeats
}

func (h *heartbeats) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &heartbeatsInbound{interceptor.ActivityInboundInterceptorBase{Next: next}, h}
}

func (h *heartbeatsInbound) Init(out interceptor.ActivityOutboundInterceptor) error {
	return h.Next.Init(&heartbeatsOutbound{interceptor.ActivityOutboundInterceptorBase{Next: out}, h.seen})
}

func (h *heartbeatsOutbound) RecordHeartbeat(ctx context.Context, details ...any) {
	h.seen.all.Add(1)
	if ctx.Err() != nil {
		h.seen.dead.Add(1)
	}
	h.Next.RecordHeartbeat(ctx, details...)
}

func TestCase_T9_NoHeartbeatGoesOutOnADeadContext(t *testing.T) {
	t.Parallel()
	const heartbeat = time.Second
	seen := &heartbeats{}
	o := newOccupied(t, setup{before: seen})
	o.start()
	run := o.run(approve, Order{ID: "o-1"}, time.Minute, heartbeat)
	<-o.begin
	eventually(t, "the attempt heartbeats", func() bool { return seen.all.Load() > 1 })
	if err := o.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the attempt is woken", func() bool { return len(o.seen.all()) == 1 })
	then := seen.all.Load()
	time.Sleep(2 * heartbeat)
	if now := seen.all.Load(); now != then || seen.dead.Load() != 0 {
		t.Errorf("%d heartbeats after the attempt had ended, %d on a dead context", now-then, seen.dead.Load())
	}
}

func TestCase_T9_RenewalsGoOnUntilAnActivityThatWasCanceledReturns(t *testing.T) {
	t.Parallel()
	const lease = 400 * time.Millisecond
	store, charge := redisStore(t), newGated()
	b := newBench(t, setup{store: store, rules: chargeByOrder(), options: []guard.GuardOption{guard.WithLease(lease)}})
	canceled := make(chan struct{})
	b.activity("Charge", func(ctx context.Context, order Order) (Receipt, error) {
		for ctx.Err() == nil {
			activity.RecordHeartbeat(ctx)
			time.Sleep(20 * time.Millisecond)
		}
		close(canceled)
		return charge.run(ctx, order) // which ignores it
	})
	b.Worker.RegisterWorkflow(approve)
	b.start()
	run := b.run(approve, Order{ID: "o-1"}, time.Minute, time.Second)
	eventually(t, "the key is reserved", func() bool { return len(open(t, store)) == 1 })
	if err := b.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	<-canceled
	for end := time.Now().Add(4 * lease); time.Now().Before(end); time.Sleep(lease / 8) {
		if keys := open(t, store); len(keys) != 1 || keys[0].Left == 0 {
			t.Fatalf("the reservation has run out: %+v", keys)
		}
	}
	close(charge.end)
	eventually(t, "the result is stored", func() bool { return len(open(t, store)) == 0 })
	charge.want(t, 1)
}

// open are the keys that are reserved.
func open(t *testing.T, store guard.Lister) (keys []guard.Listed) {
	t.Helper()
	for req := (guard.ListRequest{Limit: 100}); ; {
		reply, err := store.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, reply.Records...)
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return keys
		}
	}
}
