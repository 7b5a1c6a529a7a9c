package endings

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/telemetry"
	"github.com/onceguard/onceguard/temporalx"
)

// scenarioLimit ends a scenario that hangs.
const scenarioLimit = 45 * time.Second

// site is a server with a worker for all workflows. The activities have workers of their own,
// so that those can end.
type site struct {
	server *realtest.TemporalServer
	client client.Client
	queue  string
	board  *board
}

func newSite(t *testing.T, server *realtest.TemporalServer) *site {
	t.Helper()
	s := &site{
		server: server, client: server.Client(), queue: "workflows-" + uuid.NewString(),
		board: &board{got: map[string][]string{}},
	}
	w := worker.New(s.client, s.queue, worker.Options{DisableRegistrationAliasing: true})
	s.register(w)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return s
}

func (s *site) register(w worker.Worker) {
	w.RegisterWorkflowWithOptions(s.board.charging, workflow.RegisterOptions{Name: chargeWorkflow})
}

// setup is what a scenario changes.
type setup struct {
	key        temporalx.KeyFunc       // default DefaultKey
	options    []guard.OperationOption // of the rule
	recovers   bool                    // by a hook that looks into the ledger
	unruled    bool                    // no rules: all activities are guarded
	lease      time.Duration           // default 10 s
	dynamic    bool                    // the activity is registered for any type
	losesReply bool                    // the first attempt's, on its way to the server
	plan       plan
	worker     worker.Options

	// then is how the activity ends when it has had its effect, the n-th one. Default: well.
	then func(ctx context.Context, l *lab, n int64) error
}

// lab is a scenario: workers of one activity, and what they leave behind. A child process has
// one too, without a site.
type lab struct {
	t        *testing.T
	ctx      context.Context //nolint:containedctx // of the scenario
	site     *site
	id       string // task queue, prefix of the store, order
	setup    setup
	redis    *redis.Client
	store    *spy
	registry *prometheus.Registry
	plugin   *temporalx.Plugin
	front    *front
	charged  chan int64    // told of each effect
	goOn     chan struct{} // an activity that hangs ends when this is closed
	tokens   chan pendingActivity
}

func (s *site) lab(t *testing.T, how setup) *lab {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	t.Cleanup(cancel)
	l, err := newLab(ctx, realtest.SharedRedis(t).Client(t), "ending-"+uuid.NewString(), how)
	if err != nil {
		t.Fatal(err)
	}
	l.t, l.site = t, s
	return l
}

func newLab(ctx context.Context, rdb *redis.Client, id string, how setup) (*lab, error) {
	l := &lab{
		ctx: ctx, id: id, setup: how, redis: rdb, registry: prometheus.NewRegistry(), front: &front{loses: how.losesReply},
		charged: make(chan int64, 10), goOn: make(chan struct{}), tokens: make(chan pendingActivity, 10),
	}
	store, err := redisx.New(rdb, redisx.Options{Prefix: id})
	if err != nil {
		return nil, err
	}
	l.store = &spy{Store: store, reserved: make(chan int, 100)}
	tel, err := telemetry.New(telemetry.Options{Registerer: l.registry})
	if err != nil {
		return nil, err
	}
	lease := how.lease
	if lease == 0 {
		lease = 10 * time.Second
	}
	g, err := guard.New(l.store, guard.WithObserver(tel), guard.WithLease(lease))
	if err != nil {
		return nil, err
	}
	l.plugin, err = temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(), Rules: l.rules(),
	})
	return l, err
}

func (l *lab) rules() []temporalx.Rule {
	if l.setup.unruled {
		return nil
	}
	rule := temporalx.Rule{Activity: chargeActivity, Key: l.setup.key, Options: l.setup.options}
	if l.setup.recovers {
		rule.Recovery = temporalx.RecoverWith(func(context.Context, guard.Evidence) (string, guard.Finding, error) {
			if n := l.effects(); n > 0 {
				return receipt(n), guard.Found, nil
			}
			return "", guard.NotFound, nil
		})
	}
	return []temporalx.Rule{rule}
}

// The ledger is a counter in Redis, so that a process that is killed leaves its effects.

func (l *lab) ledger() string { return "effects-of-" + l.id }

func (l *lab) effects() int64 {
	n, _ := l.redis.Get(l.ctx, l.ledger()).Int64()
	return n
}

func receipt(n int64) string { return fmt.Sprintf("charge-%d", n) }

// charge is the activity: it has its effect, and then ends as the scenario says.
func (l *lab) charge(ctx context.Context, _ Order) (string, error) {
	n, err := l.redis.Incr(l.ctx, l.ledger()).Result()
	if err != nil {
		return "", err
	}
	l.charged <- n
	if l.setup.then != nil {
		if err := l.setup.then(ctx, l, n); err != nil {
			return "", err
		}
	}
	return receipt(n), nil
}

// newWorker makes a worker of the activity.
func (l *lab) newWorker(c client.Client) worker.Worker {
	o := l.setup.worker
	o.DisableRegistrationAliasing = true
	o.DisableWorkflowWorker = l.setup.plan.Kind != local
	o.MaxConcurrentActivityTaskPollers = 2
	o.MaxConcurrentWorkflowTaskPollers = 2
	o.Interceptors = []interceptor.WorkerInterceptor{l.front}
	o.Plugins = []worker.Plugin{l.plugin}
	w := worker.New(c, l.id, o)
	if !o.DisableWorkflowWorker {
		l.site.register(w)
	}
	if l.setup.dynamic {
		w.RegisterDynamicActivity(l.chargeDynamic, activity.DynamicRegisterOptions{})
		return w
	}
	w.RegisterActivityWithOptions(l.charge, activity.RegisterOptions{Name: chargeActivity})
	return w
}

func (l *lab) chargeDynamic(ctx context.Context, args converter.EncodedValues) (string, error) {
	var o Order
	if err := args.Get(&o); err != nil {
		return "", err
	}
	return l.charge(ctx, o)
}

// start runs a worker until the scenario ends.
func (l *lab) start() worker.Worker {
	l.t.Helper()
	return l.run(l.newWorker(l.site.client))
}

func (l *lab) run(w worker.Worker) worker.Worker {
	l.t.Helper()
	if err := w.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(w.Stop)
	return w
}

// begin starts the workflow.
func (l *lab) begin(change ...func(*client.StartWorkflowOptions)) client.WorkflowRun {
	l.t.Helper()
	p := l.setup.plan
	p.ID, p.Queue = l.id, l.id
	options := client.StartWorkflowOptions{ID: l.id, TaskQueue: l.site.queue}
	if p.Kind == local {
		options.TaskQueue = l.id
	}
	for _, c := range change {
		c(&options)
	}
	run, err := l.site.client.ExecuteWorkflow(l.ctx, options, chargeWorkflow, p)
	if err != nil {
		l.t.Fatal(err)
	}
	return run
}

// over waits for the end of a workflow that ends well, whatever its activity did.
func (l *lab) over(run client.WorkflowRun) {
	l.t.Helper()
	if err := run.Get(l.ctx, nil); err != nil {
		l.t.Fatal(err)
	}
}

// next waits for something that a scenario is told.
func next[T any](l *lab, from <-chan T, what string) (value T) {
	l.t.Helper()
	select {
	case value = <-from:
	case <-l.ctx.Done():
		l.t.Fatalf("no %s; effects %d, the workflow got %s, metrics %s", what, l.effects(), l.got(), l.moved())
	}
	return value
}

// effect waits for one.
func (l *lab) effect() {
	l.t.Helper()
	next(l, l.charged, "effect")
}

// askedTwice waits until the key has been asked for a second time.
func (l *lab) askedTwice() {
	l.t.Helper()
	for next(l, l.store.reserved, "reserve") < 2 {
	}
}

// until waits for a condition.
func (l *lab) until(what string, is func() bool) {
	l.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			l.t.Fatalf("not %s; effects %d, the workflow got %s", what, l.effects(), l.got())
		}
	}
}

// idle waits until no attempt runs.
func (l *lab) idle() {
	l.t.Helper()
	l.until("idle", func() bool { return l.front.running.Load() == 0 })
}

// spy is the store, and tells which keys it was asked for.
type spy struct {
	*redisx.Store
	reserved chan int
	mu       sync.Mutex
	asked    int
	keys     []guard.Key
}

func (s *spy) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	reply, err := s.Store.Reserve(ctx, req)
	if req.Key.Operation != chargeActivity {
		return reply, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked++; !slices.Contains(s.keys, req.Key) {
		s.keys = append(s.keys, req.Key)
	}
	s.reserved <- s.asked
	return reply, err
}

func (s *spy) seen() []guard.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.keys)
}

// front is an interceptor in front of the guard. It knows how many attempts run, and may lose
// what the first one answers: the guard has the result, the server gets an error.
type front struct {
	interceptor.WorkerInterceptorBase
	loses   bool
	running atomic.Int64
}

func (f *front) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &frontInbound{interceptor.ActivityInboundInterceptorBase{Next: next}, f}
}

type frontInbound struct {
	interceptor.ActivityInboundInterceptorBase
	front *front
}

func (f *frontInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if info.ActivityType.Name != chargeActivity {
		return f.Next.ExecuteActivity(ctx, in)
	}
	f.front.running.Add(1)
	defer f.front.running.Add(-1)
	value, err := f.Next.ExecuteActivity(ctx, in)
	if f.front.loses && info.Attempt == 1 && err == nil {
		return nil, errReplyLost
	}
	return value, err
}
