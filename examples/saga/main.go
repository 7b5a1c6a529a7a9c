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
	"flag"
	"fmt"
	"os"
	"os/signal"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
)

func main() {
	temporalAddr := flag.String("temporal", "", "address of a Temporal server; without, a dev server is started")
	redisAddr := flag.String("redis", "", "address of a Redis for the guard; without, its records are in memory")
	useGuard := flag.String("guard", "on", "off: leave the guard out, and fail")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := play(ctx, *temporalAddr, *redisAddr, *useGuard != "off")
	stop()
	if err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
	fmt.Println("each charge happened once, and so did its refund")
}

func play(ctx context.Context, temporalAddr, redisAddr string, useGuard bool) error {
	server, err := stage.StartTemporal(ctx, temporalAddr)
	if err != nil {
		return err
	}
	defer server.Close()
	store, closeStore, err := stage.OpenStore(redisAddr, "onceguard-saga")
	if err != nil {
		return err
	}
	defer closeStore()
	bank := openBank()
	defer bank.server.Close()

	activities := &Activities{
		charges: provider.Client{URL: bank.server.URL},
		refunds: provider.Client{URL: bank.server.URL + "/refunds"},
	}
	var options worker.Options
	if useGuard {
		plugin, err := guardMoney(store, activities)
		if err != nil {
			return err
		}
		options.Plugins = []worker.Plugin{plugin}
	}
	queue := "saga-" + rand.Text()
	w := worker.New(server.Client, queue, options)
	w.RegisterWorkflow(PlaceOrder)
	w.RegisterActivity(activities)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	return placeOrders(ctx, server.Client, queue, bank, activities)
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
func placeOrders(ctx context.Context, c client.Client, queue string, bank *bank, a *Activities) error {
	runs := map[string]client.WorkflowRun{}
	for kind, want := range expected {
		order := Order{ID: kind + "-" + rand.Text()[:8], Cents: want.cents}
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: order.ID, TaskQueue: queue}, PlaceOrder, order)
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
