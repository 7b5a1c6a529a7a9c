// Unknown charges a card at most once, without a recovery hook. Its worker is killed in the middle of
// a charge, so that nobody knows what became of it. The workflow is told so, has an activity ask the
// bank and settle the key, and calls the charge once more: it gets the receipt of the charge
// that there is, or charges.
//
//	unknown [-temporal address] [-redis address] [-guard=off]
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
)

func main() { stage.MainOfTwo("unknown", play, runWorker) }

// When the first worker is killed.
const (
	before = "before" // it asks the bank
	after  = "after"  // the bank has charged
)

func play(ctx context.Context, env *stage.Env) error {
	redis, err := env.Redis()
	if err != nil {
		return err
	}
	bank := provider.NewLedger()
	server := httptest.NewServer(provider.Handler(bank, provider.Options{}))
	defer server.Close()
	var wrong []error
	for _, dies := range []string{after, before} {
		order := Order{ID: dies + "-" + env.Run, Cents: 4999}
		c := config{Temporal: env.Temporal, Redis: redis, Bank: server.URL, Queue: order.ID, Guarded: env.Guard}
		receipt, err := placeOrder(ctx, env.Client, c, dies, order)
		if err != nil {
			return err
		}
		if booked := bank.Book()[order.ID]; len(booked) != 1 || booked[0] != receipt {
			wrong = append(wrong, fmt.Errorf("%s: the bank has booked %v, the workflow has %v; want one charge", order.ID, booked, receipt))
		}
	}
	if len(wrong) == 0 {
		fmt.Println("each order was charged once")
	}
	return errors.Join(wrong...)
}

// placeOrder runs the workflow on a worker that dies, and on one that follows.
func placeOrder(ctx context.Context, temporal client.Client, c config, dies string, order Order) (receipt Receipt, err error) {
	run, err := temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: order.ID, TaskQueue: c.Queue}, PlaceOrder, order)
	if err != nil {
		return receipt, err
	}
	first := c
	first.Dies = dies
	dead, err := stage.StartWorker(first)
	if err != nil {
		return receipt, err
	}
	defer dead.Kill()
	select {
	case <-dead.Gone():
	case <-ctx.Done():
		return receipt, ctx.Err()
	case <-time.After(time.Minute):
		return receipt, errors.New("the worker does not die")
	}
	second, err := stage.StartWorker(c)
	if err != nil {
		return receipt, err
	}
	defer second.Kill()
	err = run.Get(ctx, &receipt)
	return receipt, err
}
