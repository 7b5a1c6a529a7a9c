package main

import (
	"context"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// config is what a worker is told.
type config struct {
	Temporal, Redis, Ledger, Queue string
	Guarded                        bool
	badEnds
}

// badEnds are the batches with which an attempt ends badly, 0 for none.
type badEnds struct {
	Hangs        int // it is posted, and no more is heard of the first attempt
	DiesUnheard  int // it is posted, and its heartbeat is not sent
	DiesUnstored int // it is posted, and the guard has not stored that
}

// runWorker works until its parent ends or kills it, or it kills itself.
func runWorker(ctx context.Context, c config) error {
	temporal, err := stage.Connect(ctx, c.Temporal)
	if err != nil {
		return err
	}
	defer temporal.Close()
	store, closeStore, err := stage.OpenRedis(c.Redis, "resume")
	defer closeStore()
	if err != nil {
		return err
	}
	importer := &Importer{ledger: provider.Client{URL: c.Ledger}, ends: c.badEnds}
	plugin, err := guardImport(store, c.Guarded, importer)
	if err != nil {
		return err
	}
	w := worker.New(temporal, c.Queue, worker.Options{
		Plugins: []worker.Plugin{plugin},
		// The successor of a dead worker gets its workflows after this long.
		StickyScheduleToStartTimeout: 200 * time.Millisecond,
		// The SDK sends a heartbeat at most so often, and the last one then.
		MaxHeartbeatThrottleInterval: 100 * time.Millisecond,
	})
	w.RegisterWorkflow(ImportFile)
	w.RegisterActivity(importer)
	return w.Run(worker.InterruptCh())
}

// guardImport guards every activity but Import, and each batch of that.
func guardImport(store guard.Store, enabled bool, i *Importer) (*temporalx.Plugin, error) {
	g, err := guard.New(store, guard.WithLease(time.Second), guard.WithEnabled(func() bool { return enabled }))
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
