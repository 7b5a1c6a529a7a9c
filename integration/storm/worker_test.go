//go:build unix

package storm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/temporalx"
)

// The times of a worker. An attempt has more time than it needs, unless the machine is too busy; that its worker is dead
// is known by the heartbeat that is missing.
const (
	lease            = 2 * time.Second
	attemptLimit     = 8 * time.Second
	heartbeatLimit   = 1500 * time.Millisecond
	heartbeatEvery   = 300 * time.Millisecond
	slowReport       = 400 * time.Millisecond
	retryInterval    = 100 * time.Millisecond
	workflowTaskTime = 2 * time.Second
)

// config is what a worker needs to know.
type config struct {
	Name, Temporal, Queue, Redis, Provider string
	Guarded                                bool
	Seed                                   uint64
}

// checkout is the workflow. It knows nothing of the guard.
func checkout(ctx workflow.Context, o Order) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: attemptLimit, HeartbeatTimeout: heartbeatLimit,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: retryInterval, BackoffCoefficient: 1},
	})
	err = workflow.ExecuteActivity(ctx, "Charge", o).Get(ctx, &receipt)
	return receipt, err
}

// serve works until the process is killed.
func (c config) serve(ctx context.Context) error {
	temporalClient, err := client.DialContext(ctx, client.Options{
		HostPort: c.Temporal, Identity: c.Name,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return err
	}
	options := worker.Options{
		Interceptors: []interceptor.WorkerInterceptor{&slowReports{seed: c.Seed}},
		// Whoever comes after a dead worker gets its workflows after this long.
		StickyScheduleToStartTimeout: 200 * time.Millisecond,
		MaxHeartbeatThrottleInterval: heartbeatEvery,
	}
	provider := caller{c.Provider, c.Name}
	if c.Guarded {
		plugin, err := c.plugin(provider)
		if err != nil {
			return err
		}
		options.Plugins = []worker.Plugin{plugin}
	}
	w := worker.New(temporalClient, c.Queue, options)
	w.RegisterWorkflow(checkout)
	w.RegisterActivityWithOptions(func(ctx context.Context, o Order) (Receipt, error) {
		return c.charge(ctx, provider, o)
	}, activity.RegisterOptions{Name: "Charge"})
	if err := w.Start(); err != nil {
		return err
	}
	tell(wordReady)
	select {}
}

// charge is the activity.
func (c config) charge(ctx context.Context, provider caller, o Order) (Receipt, error) {
	fence, ok := guard.FenceFromContext(ctx)
	if ok != c.Guarded {
		return Receipt{}, fmt.Errorf("there is a reservation: %t, want %t", ok, c.Guarded)
	}
	tell("runs of the activity")
	beats, stop := context.WithCancel(ctx)
	defer stop()
	go beat(beats)
	return provider.charge(ctx, o, fence)
}

// beat heartbeats until its context is done.
func beat(ctx context.Context) {
	for every := time.NewTicker(heartbeatEvery); ; {
		activity.RecordHeartbeat(ctx)
		select {
		case <-every.C:
		case <-ctx.Done():
			every.Stop()
			return
		}
	}
}

func (c config) plugin(provider caller) (*temporalx.Plugin, error) {
	rdb := redis.NewClient(&redis.Options{Addr: c.Redis, ContextTimeoutEnabled: true, DialerRetries: 1})
	store, err := redisx.New(rdb, redisx.Options{Prefix: c.Queue})
	if err != nil {
		return nil, err
	}
	g, err := guard.New(store, guard.WithLease(lease), guard.WithOwnerLabel(c.Name), guard.WithObserver(observer{}))
	if err != nil {
		return nil, err
	}
	return temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "Charge",
			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
			Recovery: temporalx.RecoverWith(provider.recover),
			Options: []guard.OperationOption{
				guard.ForPayments(),
				// A hook that does not answer in time is final for a workflow. Here the attempt ends sooner.
				guard.WithRecoveryTimeout(2 * attemptLimit),
			},
		}},
	})
}

// recover is the recovery hook.
func (c caller) recover(ctx context.Context, lost guard.Evidence) (Receipt, guard.Finding, error) {
	charges, err := c.lookUp(ctx, lost.Key.Name, lost.Fence)
	switch {
	case err != nil:
		return Receipt{}, guard.CannotTell, err
	case len(charges) == 0:
		return Receipt{}, guard.NotFound, nil
	default:
		return charges[0], guard.Found, nil
	}
}

// slowReports is in front of the guard: some results are stored for a while before Temporal hears of them.
type slowReports struct {
	interceptor.WorkerInterceptorBase
	seed uint64
}

func (s *slowReports) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &slowReporting{interceptor.ActivityInboundInterceptorBase{Next: next}, s.seed}
}

type slowReporting struct {
	interceptor.ActivityInboundInterceptorBase
	seed uint64
}

func (s *slowReporting) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	value, err := s.Next.ExecuteActivity(ctx, in)
	info := activity.GetInfo(ctx)
	d := newDice(s.seed, fmt.Sprintf("report %d of %s", info.Attempt, info.WorkflowExecution.ID))
	if err == nil && d.IntN(2) == 0 {
		select {
		case <-time.After(d.upTo(slowReport)):
		case <-ctx.Done():
		}
	}
	return value, err
}

// observer tells the parent what the guard does.
type observer struct{}

func (observer) Operation(guard.OperationInfo) guard.OperationObserver { return observer{} }

func (observer) Call(ctx context.Context, _ guard.CallInfo) (context.Context, guard.CallObserver) {
	return ctx, callObserver{activity.GetInfo(ctx).Attempt}
}

type callObserver struct{ attempt int32 }

func (callObserver) TraceParent() string { return "" }

func (o callObserver) Phase(ctx context.Context, p guard.Phase) (context.Context, guard.PhaseObserver) {
	return ctx, phaseObserver{p}
}

func (o callObserver) End(end guard.CallEnd) {
	tell(fmt.Sprintf("%s %s", wordCall, end.Outcome))
	if end.Outcome == guard.OutcomeReplayed && o.attempt > 1 {
		tell(wordReplayedLater)
	}
}

func (callObserver) Event(_ context.Context, e guard.Event) {
	switch e.Kind {
	case guard.EventAcquired:
		if e.Record.TookOver != nil {
			tell(wordTakeover)
		}
	case guard.EventCollision:
		tell(wordCollision)
	case guard.EventStale:
		tell("results that came too late: stale")
	case guard.EventHeld:
		tell("keys held: " + e.Reason)
	case guard.EventLost:
		tell("leases lost: " + e.Reason)
	case guard.EventUnstored:
		tell("results not stored at once: " + e.Reason)
	case guard.EventStorageError:
		tell("calls of the store that failed: " + string(e.Phase))
	case guard.EventUnguarded:
		tell("runs without a reservation")
	case guard.EventEnded, guard.EventHit, guard.EventMismatch, guard.EventActionEnded, guard.EventUnknown:
	}
}

type phaseObserver struct{ phase guard.Phase }

func (o phaseObserver) End(end guard.PhaseEnd) {
	if o.phase != guard.PhaseRecover {
		return
	}
	if end.Err != nil && !errors.Is(end.Err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "the hook:", end.Err)
	}
	tell(wordHook + " " + end.Result)
}
