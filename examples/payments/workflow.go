package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/examples/internal/provider"
)

// The times of the demo. A charge is longer than a third of the lease, so that
// the lease is renewed while it runs, and an attempt outlives neither by much: a
// dead worker's activity is to be tried again soon.
const (
	chargeTakes    = 800 * time.Millisecond
	lease          = 2 * time.Second
	attemptTimeout = 2 * time.Second
)

// Checkout is the workflow. It knows nothing of the guard, and neither does its
// activity: the worker's interceptor guards it.
func Checkout(ctx workflow.Context, order Order) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: attemptTimeout,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1},
	})
	var activities *Activities
	err = workflow.ExecuteActivity(ctx, activities.ChargeCard, order).Get(ctx, &receipt)
	return receipt, err
}

// Activities are the activities of the worker.
type Activities struct{ provider provider.Client }

// ChargeCard charges the card of an order at the provider.
func (a *Activities) ChargeCard(ctx context.Context, order Order) (Receipt, error) {
	say(ctx, "asks the provider for a charge")
	receipt, err := a.provider.Charge(ctx, order, 0)
	if err != nil {
		say(ctx, "got no receipt: "+err.Error())
		return Receipt{}, err
	}
	say(ctx, "got the receipt of "+receipt.Charge)
	return receipt, nil
}

// say prints a live line of an activity's attempt.
func say(ctx context.Context, text string) {
	if !activity.IsActivity(ctx) {
		fmt.Println(text)
		return
	}
	info := activity.GetInfo(ctx)
	fmt.Printf("%s attempt %d: %s\n", info.WorkflowExecution.ID, info.Attempt, text)
}
