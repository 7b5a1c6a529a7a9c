package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
)

// doom is what a doomed worker is told.
type doom struct {
	Temporal, Redis, Bank, Queue string
	Lease                        time.Duration
}

// runDoomed is a worker process whose activities never come back: each says that it holds its key, after
// its effect, and waits to be killed.
func runDoomed(ctx context.Context, d doom) error {
	temporal, err := stage.Connect(ctx, d.Temporal)
	if err != nil {
		return err
	}
	defer temporal.Close()
	rdb := openRedis(d.Redis)
	defer func() { _ = rdb.Close() }()
	g, err := newGuard(rdb, d.Lease, "doomed", nil)
	if err != nil {
		return err
	}
	bank := provider.Client{URL: d.Bank}
	plugin, err := guardActivities(g, bank, d.Lease)
	if err != nil {
		return err
	}
	w := worker.New(temporal, d.Queue, worker.Options{
		Plugins: []worker.Plugin{plugin}, DisableWorkflowWorker: true,
	})
	w.RegisterActivity(&Activities{provider: bank, takes: func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Bank+"/holding", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		select {} // killed here
	}})
	return w.Run(worker.InterruptCh())
}

// kill starts a worker, gives it work of each kind, kills it, and serves its task queue from then on, until
// that work is done.
func (w *world) kill(ctx context.Context, _ time.Duration) error {
	w.doomed.Lock()
	defer w.doomed.Unlock()
	w.store.RLock()
	defer w.store.RUnlock()
	queue := fmt.Sprintf("%s-doomed-%d", w.queue, w.numbers.Add(1))
	doomed, err := stage.StartWorker(doom{
		Temporal: w.server, Redis: w.redisAddr, Bank: w.bank.URL, Queue: queue, Lease: w.lease,
	})
	if err != nil {
		return err
	}
	defer doomed.Kill()
	for len(w.holding) > 0 {
		<-w.holding
	}
	var runs []client.WorkflowRun
	for _, step := range []string{actReserve, actCharge, actReceipt} {
		for n := range 2 {
			order := provider.Order{ID: fmt.Sprintf("%s-%s-%d", queue, step, n), Cents: 500}
			if run := w.start(ctx, order, queue, step); run != nil {
				runs = append(runs, run)
			}
		}
	}
	if err := w.untilHolding(ctx, doomed, len(runs)); err != nil {
		return err
	}
	doomed.Kill()
	stop, err := w.startWorker(ctx, queue)
	if err != nil {
		return err
	}
	defer stop()
	for _, run := range runs {
		_ = run.Get(ctx, nil) // some fail: their outcome is unknown
	}
	return nil
}

// untilHolding waits until the worker is in so many effects, or has no more within two leases.
func (w *world) untilHolding(ctx context.Context, doomed *stage.Process, want int) error {
	patience := 20 * time.Second
	for n := range want {
		select {
		case <-w.holding:
			patience = 2 * w.lease
		case <-doomed.Gone():
			return errors.New("the worker has ended by itself")
		case <-time.After(patience):
			if n == 0 {
				return errors.New("the worker does not get its work")
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
