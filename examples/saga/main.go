// Saga books, charges and ships orders. Shipping fails for good, so the booking is canceled and
// the charge refunded. The bank's first answer, or the first request to it, gets lost, so that
// both the charge and the refund are tried again, and each happens once.
//
//	saga [-temporal address] [-redis address] [-guard=off]
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
)

func main() { stage.Main("saga", play) }

func play(ctx context.Context, env *stage.Env) error {
	store, err := env.Store()
	if err != nil {
		return err
	}
	bank := openBank()
	defer bank.server.Close()

	activities := &Activities{
		charges: provider.Client{URL: bank.server.URL},
		refunds: provider.Client{URL: bank.server.URL + "/refunds"},
	}
	var options worker.Options
	if env.Guard {
		plugin, err := guardMoney(store, activities)
		if err != nil {
			return err
		}
		options.Plugins = []worker.Plugin{plugin}
	}
	w := worker.New(env.Client, env.Run, options)
	w.RegisterWorkflow(PlaceOrder)
	w.RegisterActivity(activities)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	if err := placeOrders(ctx, env, bank, activities); err != nil {
		return err
	}
	fmt.Println("each charge happened once, and so did its refund")
	return nil
}

// expected is what comes of an order of each kind.
var expected = map[string]struct {
	cents   int64
	booked  int    // times, of the charge and of the refund
	failure string // of the workflow
}{
	answerLost:  {4999, 1, "NoCarrier"},
	requestLost: {4999, 1, "NoCarrier"},
	declined:    {provider.DeclinedCents, 0, "CardDeclined"},
}

// placeOrders plays one order of each kind, and judges.
func placeOrders(ctx context.Context, env *stage.Env, bank *bank, a *Activities) error {
	runs := map[string]client.WorkflowRun{}
	for kind, want := range expected {
		order := Order{ID: kind + "-" + rand.Text()[:8], Cents: want.cents}
		run, err := env.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: order.ID, TaskQueue: env.Run}, PlaceOrder, order)
		if err != nil {
			return err
		}
		runs[kind] = run
	}
	var wrong []error
	for kind, run := range runs {
		order, want := run.GetID(), expected[kind]
		err := run.Get(ctx, nil)
		if failure, ok := errors.AsType[*temporal.ApplicationError](err); !ok || failure.Type() != want.failure {
			wrong = append(wrong, fmt.Errorf("%s: it ended with %w, want %s", order, err, want.failure))
		}
		charged, refunded := bank.charges.entries(order), bank.refunds.entries(order)
		fmt.Printf("%s: charged %d times, refunded %d times\n", order, charged, refunded)
		if charged != want.booked || refunded != want.booked {
			wrong = append(wrong, fmt.Errorf("%s: %d charges and %d refunds, want %d of each", order, charged, refunded, want.booked))
		}
		if _, booked := a.booked.Load(order); booked {
			wrong = append(wrong, fmt.Errorf("%s is still booked", order))
		}
	}
	return errors.Join(wrong...)
}
