package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/telemetry"
	"github.com/onceguard/onceguard/temporalx"
)

// workerConfig is what the demo tells a worker on its command line.
type workerConfig struct {
	name        string
	temporal    string
	queue       string
	redis       string
	provider    string
	guarded     bool
	holdReport  bool
	holdReceipt bool
	slots       int
}

func (c *workerConfig) flags() *flag.FlagSet {
	f := flag.NewFlagSet("worker", flag.ContinueOnError)
	f.StringVar(&c.name, "name", "worker", "what the worker calls itself")
	f.StringVar(&c.temporal, "temporal", client.DefaultHostPort, "address of the Temporal server")
	f.StringVar(&c.queue, "queue", "payments", "task queue")
	f.StringVar(&c.redis, "redis", "127.0.0.1:6379", "address of Redis, for the guard")
	f.StringVar(&c.provider, "provider", "", "URL of the payment provider")
	f.BoolVar(&c.guarded, "guarded", false, "guard the activity")
	f.BoolVar(&c.holdReport, "hold-report", false, "never let the result of an activity reach Temporal")
	f.BoolVar(&c.holdReceipt, "hold-receipt", false, "never let an activity return the receipt of its charge")
	f.IntVar(&c.slots, "slots", 100, "how many activities run at once")
	return f
}

// args is the command line that flags would read.
func (c *workerConfig) args() []string {
	var args []string
	for flagName, value := range map[string]any{
		"name": c.name, "temporal": c.temporal, "queue": c.queue, "redis": c.redis, "provider": c.provider,
		"guarded": c.guarded, "hold-report": c.holdReport, "hold-receipt": c.holdReceipt, "slots": c.slots,
	} {
		args = append(args, fmt.Sprintf("-%s=%v", flagName, value))
	}
	return args
}

// runWorker charges cards until its parent closes its input, or kills it.
func runWorker(ctx context.Context, args []string) error {
	var config workerConfig
	if err := config.flags().Parse(args); err != nil {
		return err
	}
	ctx, cancel := untilStdinEnds(ctx)
	defer cancel()

	registry := prometheus.NewRegistry()
	options := worker.Options{
		MaxConcurrentActivityExecutionSize: config.slots,
		// The successor of a killed worker gets its workflows after this long.
		StickyScheduleToStartTimeout: 200 * time.Millisecond,
		WorkerStopTimeout:            time.Second,
	}
	activities := &Activities{provider: provider.Client{URL: config.provider}}
	if config.holdReceipt {
		activities.charged = holdReceipt
	}
	if config.guarded {
		rdb := redis.NewClient(&redis.Options{Addr: config.redis, ContextTimeoutEnabled: true, DialerRetries: 1})
		defer func() { _ = rdb.Close() }()
		g, err := guardOnRedis(rdb, registry, config.name)
		if err != nil {
			return err
		}
		defer drain(context.WithoutCancel(ctx), g) // after the worker has stopped, before Redis is closed
		guarded, err := guardCharges(g, activities.provider)
		if err != nil {
			return err
		}
		activities.guarded = guarded
		options.Interceptors = []interceptor.WorkerInterceptor{guarded}
	}
	stop, err := startWorker(ctx, config, options, activities)
	if err != nil {
		return err
	}
	defer stop()
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return serve(ctx, "127.0.0.1:0", metrics, func(addr string) { tell(wordReady, "http://"+addr+"/metrics") })
}

// startWorker connects to Temporal and takes work.
func startWorker(
	ctx context.Context, config workerConfig, options worker.Options, activities *Activities,
) (stop func(), err error) {
	logs := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	clientOptions := client.Options{
		HostPort: config.temporal,
		Identity: config.name,
		Logger:   sdklog.NewStructuredLogger(logs),
	}
	if config.holdReport {
		clientOptions.ConnectionOptions.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(holdReports)}
	}
	c, err := client.DialContext(ctx, clientOptions)
	if err != nil {
		return nil, err
	}
	w := worker.New(c, config.queue, options)
	w.RegisterWorkflow(Checkout)
	w.RegisterWorkflow(CheckoutAndReconcile)
	w.RegisterActivity(activities)
	if err := w.Start(); err != nil {
		c.Close()
		return nil, err
	}
	return func() { w.Stop(); c.Close() }, nil
}

// drain waits until the actions that run have come back and Redis has what they have left. A
// result that Redis did not take yet is in this process alone.
func drain(ctx context.Context, g *guard.Guard) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := g.Drain(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "drain:", err)
	}
}

// guardOnRedis is a guard on Redis with telemetry.
func guardOnRedis(rdb redis.UniversalClient, registry prometheus.Registerer, name string) (*guard.Guard, error) {
	store, err := redisx.New(rdb, redisx.Options{})
	if err != nil {
		return nil, err
	}
	tel, err := telemetry.New(telemetry.Options{
		Registerer: registry,
		Logger:     slog.New(liveLog{level: slog.LevelDebug}),
	})
	if err != nil {
		return nil, err
	}
	return newGuard(store,
		guard.WithObserver(tel),
		guard.WithOwnerLabel(fmt.Sprintf("%s/%d", name, os.Getpid())))
}

func newGuard(store guard.Store, options ...guard.GuardOption) (*guard.Guard, error) {
	return guard.New(store, append(options, guard.WithLease(lease))...)
}

// guardCharges guards ChargeCard by the order: a payment, of which the provider can be
// asked what became of it.
func guardCharges(g *guard.Guard, p provider.Client) (*temporalx.Interceptor, error) {
	return temporalx.New(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "ChargeCard",
			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
			Recovery: temporalx.RecoverWith(askProvider(p)),
			Options: []guard.OperationOption{
				guard.ForPayments(), guard.OnFailure(whatItMeans), guard.WithSettleTime(settle),
			},
		}},
	})
}
