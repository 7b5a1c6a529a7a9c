package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/temporalx"
)

// config is what a worker is told on its command line.
type config struct {
	temporal, redis, ledger, queue string
	guarded                        bool
	diesUnheard, diesUnstored      int
}

func (c *config) flags() *flag.FlagSet {
	f := flag.NewFlagSet("worker", flag.ExitOnError)
	f.StringVar(&c.temporal, "temporal", "", "address of the Temporal server")
	f.StringVar(&c.redis, "redis", "", "address of Redis, for the guard")
	f.StringVar(&c.ledger, "ledger", "", "URL of the ledger")
	f.StringVar(&c.queue, "queue", "", "task queue")
	f.BoolVar(&c.guarded, "guarded", false, "guard the batches")
	f.IntVar(&c.diesUnheard, "dies-unheard", 0, "die after this batch, before its heartbeat")
	f.IntVar(&c.diesUnstored, "dies-unstored", 0, "die after this batch, before the guard has stored that")
	return f
}

// args is the command line that flags would read.
func (c *config) args() []string {
	return []string{
		"worker", "-temporal=" + c.temporal, "-redis=" + c.redis, "-ledger=" + c.ledger, "-queue=" + c.queue,
		fmt.Sprintf("-guarded=%t", c.guarded),
		fmt.Sprintf("-dies-unheard=%d", c.diesUnheard), fmt.Sprintf("-dies-unstored=%d", c.diesUnstored),
	}
}

// runWorker works until its parent ends or kills it, or it kills itself.
func runWorker(ctx context.Context, args []string) error {
	var c config
	if err := c.flags().Parse(args); err != nil {
		return err
	}
	stage.EndWithParent()
	server, err := stage.StartTemporal(ctx, c.temporal)
	if err != nil {
		return err
	}
	importer := &Importer{
		ledger:      provider.Client{URL: c.ledger},
		diesUnheard: c.diesUnheard, diesUnstored: c.diesUnstored,
	}
	options := worker.Options{
		// The successor of a dead worker gets its workflows after this long.
		StickyScheduleToStartTimeout: 200 * time.Millisecond,
		// The SDK sends a heartbeat at most so often, and the last one then.
		MaxHeartbeatThrottleInterval: 100 * time.Millisecond,
	}
	if c.guarded {
		plugin, err := guardImport(c.redis, importer)
		if err != nil {
			return err
		}
		options.Plugins = []worker.Plugin{plugin}
	}
	w := worker.New(server.Client, c.queue, options)
	w.RegisterWorkflow(ImportFile)
	w.RegisterActivity(importer)
	return w.Run(worker.InterruptCh())
}

// guardImport guards every activity but Import, and each batch of that.
func guardImport(addr string, i *Importer) (*temporalx.Plugin, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
	store, err := redisx.New(rdb, redisx.Options{Prefix: "onceguard-resume"})
	if err != nil {
		return nil, err
	}
	g, err := guard.New(store, guard.WithLease(time.Second))
	if err != nil {
		return nil, err
	}
	// It need not be long until the ledger is asked about a batch, since it heeds fences.
	i.batch, err = guard.NewOperation[provider.Receipt](g, "import.batch",
		guard.ForPayments(), guard.WithRecovery(i.askLedger), guard.WithSettleTime(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	return temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Exclude:       []string{"Import"},
	})
}
