package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
)

// What the bank takes and gives.
type (
	Order   = provider.Order
	Receipt = provider.Receipt
)

// PlaceOrder is the saga. When a step fails for good, what the steps before it have done is
// undone, the last first.
//
// A refund is due if and only if the card is charged, and whether it is must be known for
// that: ChargeCard does not end without knowing, because its recovery hook asks the bank. Should
// not even the bank know, it fails with temporalx.TypeOutcomeUnknown; then nothing is refunded on a
// guess, and CheckoutAndReconcile of the payments example shows how to go on.
func PlaceOrder(ctx workflow.Context, order Order) (err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 50 * time.Millisecond, BackoffCoefficient: 1},
	})
	var a *Activities
	var undo []func(workflow.Context) workflow.Future
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := workflow.NewDisconnectedContext(ctx) // also when the workflow is canceled
		defer cancel()
		for _, step := range slices.Backward(undo) {
			if failed := step(ctx).Get(ctx, nil); failed != nil {
				err = failed
			}
		}
	}()

	if err := workflow.ExecuteActivity(ctx, a.Book, order).Get(ctx, nil); err != nil {
		return err
	}
	undo = append(undo, func(ctx workflow.Context) workflow.Future {
		return workflow.ExecuteActivity(ctx, a.CancelBooking, order)
	})
	var receipt Receipt
	if err := workflow.ExecuteActivity(ctx, a.ChargeCard, order).Get(ctx, &receipt); err != nil {
		return err
	}
	undo = append(undo, func(ctx workflow.Context) workflow.Future {
		return workflow.ExecuteActivity(ctx, a.RefundCharge, receipt)
	})
	return workflow.ExecuteActivity(ctx, a.Ship, order).Get(ctx, nil)
}

// Activities are the steps. Those that move money are guarded; the others may be
// repeated as they are.
type Activities struct {
	charges, refunds provider.Client
	booked           sync.Map // orders that have a booking
}

// Book reserves the goods.
func (a *Activities) Book(_ context.Context, o Order) error {
	a.booked.Store(o.ID, true)
	return nil
}

// CancelBooking gives them back.
func (a *Activities) CancelBooking(ctx context.Context, o Order) error {
	say(ctx, "cancels the booking")
	a.booked.Delete(o.ID)
	return nil
}

// ChargeCard charges the card of an order.
func (a *Activities) ChargeCard(ctx context.Context, o Order) (Receipt, error) {
	say(ctx, "asks the bank to charge")
	return enter(ctx, a.charges, o)
}

// RefundCharge gives back what was charged.
func (a *Activities) RefundCharge(ctx context.Context, charged Receipt) (Receipt, error) {
	say(ctx, "asks the bank to refund "+charged.Charge)
	return enter(ctx, a.refunds, charged.Order)
}

// Ship fails for good.
func (a *Activities) Ship(ctx context.Context, _ Order) error {
	say(ctx, "finds no carrier")
	return temporal.NewNonRetryableApplicationError("there is no carrier", "NoCarrier", nil)
}

// enter has an entry made in one of the bank's books, which refuses the request of an owner
// whose key somebody else has had since: it gets the fence.
func enter(ctx context.Context, p provider.Client, o Order) (Receipt, error) {
	fence, _ := guard.FenceFromContext(ctx) // none without the guard
	receipt, err := p.Charge(ctx, o, fence)
	switch {
	case errors.Is(err, provider.ErrDeclined):
		err = temporal.NewNonRetryableApplicationError("the card is declined", "CardDeclined", err)
	case err != nil:
		say(ctx, "got no answer: "+err.Error())
	}
	return receipt, err
}

// say prints a line of an activity's attempt.
func say(ctx context.Context, text string) {
	info := activity.GetInfo(ctx)
	fmt.Printf("%s: %s, attempt %d, %s\n", info.WorkflowExecution.ID, info.ActivityType.Name, info.Attempt, text)
}
