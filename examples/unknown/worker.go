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
	Temporal, Redis, Bank, Queue string
	Guarded                      bool
	Dies                         string
}

// runWorker works until its parent ends or kills it, or it kills itself.
func runWorker(ctx context.Context, c config) error {
	temporal, err := stage.Connect(ctx, c.Temporal)
	if err != nil {
		return err
	}
	defer temporal.Close()
	store, closeStore, err := stage.OpenRedis(c.Redis, "unknown")
	defer closeStore()
	if err != nil {
		return err
	}
	plugin, err := guardCharges(store, c.Guarded)
	if err != nil {
		return err
	}
	w := worker.New(temporal, c.Queue, worker.Options{
		Plugins: []worker.Plugin{plugin},
		// The successor of a dead worker gets its workflows after this long.
		StickyScheduleToStartTimeout: 200 * time.Millisecond,
	})
	w.RegisterWorkflow(PlaceOrder)
	w.RegisterActivity(&Activities{bank: provider.Client{URL: c.Bank}, guarded: plugin.Interceptor(), dies: c.Dies})
	return w.Run(worker.InterruptCh())
}

// guardCharges has ChargeCard run at most once per order. The end of a run that died is not for the
// next attempt to guess, nor to ask for.
func guardCharges(store guard.Store, enabled bool) (*temporalx.Plugin, error) {
	g, err := guard.New(store, guard.WithLease(time.Second), guard.WithEnabled(func() bool { return enabled }))
	if err != nil {
		return nil, err
	}
	return temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "ChargeCard",
			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
			Options:  []guard.OperationOption{guard.ForPayments(), guard.AtMostOnce()},
		}},
	})
}
