package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/examples/internal/provider"
)

// atOnce bounds the orders that are started and not over, for a store that stands still.
const atOnce = 500

// load makes orders until the context ends, and what follows each.
func (w *world) load(ctx context.Context) {
	dice := rand.New(rand.NewPCG(w.seed, 1)) //nolint:gosec // no secret
	ticker := time.NewTicker(time.Duration(float64(time.Second) / w.rate))
	defer ticker.Stop()
	room := make(chan struct{}, atOnce)
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		select {
		case room <- struct{}{}:
		default:
			continue
		}
		takes := w.lease/20 + time.Duration(dice.Int64N(int64(w.lease/5)))
		w.calls.Go(func() {
			defer func() { <-room }()
			w.order(ctx, n)
			w.effects(ctx, n, takes)
		})
	}
}

// order starts the workflow of an order. Some come twice, some later again, or with another sum.
func (w *world) order(ctx context.Context, n int) {
	o := provider.Order{ID: w.orderID(n), Cents: int64(100 + n%900)}
	steps := []string{actReserve, actCharge, actReceipt}
	if n%15 == 7 {
		steps = slices.Insert(steps, 0, actApprove)
	}
	if n%20 == 9 {
		o.Cents = provider.DeclinedCents
	}
	w.start(ctx, o, w.queue, steps...)
	if n%5 == 2 {
		w.start(ctx, o, w.queue, steps...)
	}
	if n >= 20 && n%10 == 4 {
		o.ID, o.Cents = w.orderID(n-20), int64(100+(n-20)%900)
		if n%20 == 4 {
			o.Cents++
		}
		w.start(ctx, o, w.queue, actCharge)
	}
}

func (w *world) orderID(n int) string { return fmt.Sprintf("%s-order-%d", w.queue, n) }

// start starts a workflow, if the server answers.
func (w *world) start(ctx context.Context, o provider.Order, queue string, steps ...string) client.WorkflowRun {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	run, err := w.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		TaskQueue: w.queue, WorkflowExecutionTimeout: time.Minute + 30*w.lease,
	}, Checkout, Purchase{Order: o, Lease: w.lease, Queue: queue, Steps: steps})
	if err != nil {
		return nil
	}
	return run
}

// effects are calls outside of Temporal.
func (w *world) effects(ctx context.Context, n int, takes time.Duration) {
	key := w.orderID(n)
	var crowd crowd
	crowd.call(ctx, w, opLedger, key, takes/4, 1)
	crowd.call(ctx, w, opProfile, key, takes, 1+n%6)
	crowd.call(ctx, w, opCoupon, key, takes, 1+n%4/3)
	crowd.call(ctx, w, opIndex, key, takes/2, 1+n%3/2)
	crowd.call(ctx, w, opExport, key, takes/2, 1)
	if n%6 == 0 {
		crowd.call(ctx, w, opReport, key, w.lease+4*takes, 1)
	}
	if n%12 == 0 {
		crowd.Go(func() { w.leaves(ctx, key) })
	}
	switch n % 30 {
	case 3:
		crowd.call(ctx, w, opLedger, "", 0, 1) // no key
	case 13:
		crowd.Go(func() { // gives up in its action
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer time.AfterFunc(takes, cancel).Stop()
			w.call(ctx, opProfile, key+"-patience", w.lease)
		})
	case 23:
		crowd.Go(func() {
			_, _ = w.ops[opLedger].Do(ctx, key+"-fails", func(context.Context) (string, error) {
				return "", errors.New("the ledger is closed")
			})
		})
	}
	crowd.Wait()
	if n%3 == 0 {
		w.call(ctx, opLedger, key, 0) // a repeat
	}
}

// leaves waits for a report that somebody else renders, and leaves before that is done.
func (w *world) leaves(ctx context.Context, key string) {
	if pause(ctx, nil, w.lease/10) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.lease/5)
	defer cancel()
	w.call(ctx, opReport, key, 0)
}

// call calls an operation whose action takes so long. Its errors are for the metrics to tell.
func (w *world) call(ctx context.Context, op, key string, takes time.Duration) {
	w.callFor(ctx, op, key, "done", takes)
}

func (w *world) callFor(ctx context.Context, op, key, result string, takes time.Duration) {
	_, _ = w.ops[op].Do(ctx, key, func(ctx context.Context) (string, error) {
		return result, pause(ctx, nil, takes)
	})
}

// crowd is calls at once.
type crowd struct{ sync.WaitGroup }

func (c *crowd) call(ctx context.Context, w *world, op, key string, takes time.Duration, times int) {
	for range times {
		c.Go(func() { w.call(ctx, op, key, takes) })
	}
}

// large is a result of so many bytes.
func large(n int) string { return strings.Repeat("x", n) }
