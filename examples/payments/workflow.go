package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// The times of the demo. A charge is longer than a third of the lease, so that
// the lease is renewed while it runs, and an attempt outlives neither by much: a
// dead worker's activity is to be tried again soon.
const (
	chargeTakes    = 800 * time.Millisecond
	lease          = 2 * time.Second
	attemptTimeout = 2 * time.Second
	drainLimit     = 2 * time.Second // within what a child has to end politely
	// settle is how long a request may be on its way before the provider is asked what
	// became of it. It need not be long, since the provider heeds fences.
	settle = chargeTakes
)

func attempts() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: attemptTimeout,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1},
	}
}

// Checkout is the workflow. It knows nothing of the guard: the worker's interceptor
// guards its activity.
func Checkout(ctx workflow.Context, order Order) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, attempts())
	var activities *Activities
	err = workflow.ExecuteActivity(ctx, activities.ChargeCard, order).Get(ctx, &receipt)
	return receipt, err
}

// Activities are the activities of the worker.
type Activities struct {
	provider provider.Client
	guarded  *temporalx.Interceptor // nil without the guard
	// charged is called with the receipt in hand, and may never come back.
	charged func(context.Context)
}

// ChargeCard charges the card of an order at the provider, which refuses the request of
// an owner whose key somebody else has had since: it gets the fence.
func (a *Activities) ChargeCard(ctx context.Context, order Order) (Receipt, error) {
	say(ctx, "asks the provider for a charge")
	fence, _ := guard.FenceFromContext(ctx) // none without the guard
	receipt, err := a.provider.Charge(ctx, order, fence)
	if err != nil {
		say(ctx, "got no receipt: "+err.Error())
		return Receipt{}, toTemporal(err)
	}
	say(ctx, "got the receipt of "+receipt.Charge)
	if a.charged != nil {
		a.charged(ctx)
	}
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
