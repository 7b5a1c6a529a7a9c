package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// What the bank takes and gives.
type (
	Order   = provider.Order
	Receipt = provider.Receipt
)

// PlaceOrder charges an order. It fails when the outcome is unknown a second time; one that is to
// go on then does the same in a loop.
func PlaceOrder(ctx workflow.Context, order Order) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 3 * time.Second, // after which the server notices that the worker is dead
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1},
	})
	var a *Activities
	charge := func() error { return workflow.ExecuteActivity(ctx, a.ChargeCard, order).Get(ctx, &receipt) }
	err = charge()
	unknown, is := outcomeUnknown(err)
	if !is {
		return receipt, err
	}
	// It is tried until the bank answers.
	if err := workflow.ExecuteActivity(ctx, a.Reconcile, unknown).Get(ctx, nil); err != nil {
		return receipt, err
	}
	err = charge()
	return receipt, err
}

// outcomeUnknown reports whether an activity failed because nobody knows, and of what.
func outcomeUnknown(err error) (unknown temporalx.OutcomeUnknown, is bool) {
	app, is := errors.AsType[*temporal.ApplicationError](err)
	is = is && app.Type() == temporalx.TypeOutcomeUnknown && app.Details(&unknown) == nil
	return unknown, is
}

// Activities are those of the worker.
type Activities struct {
	bank    provider.Client
	guarded *temporalx.Interceptor
	dies    string // when this worker does, "" for not
}

// ChargeCard charges the card of an order.
func (a *Activities) ChargeCard(ctx context.Context, o Order) (Receipt, error) {
	fmt.Printf("%s: ChargeCard, attempt %d, runs\n", o.ID, activity.GetInfo(ctx).Attempt)
	if a.dies == before {
		return Receipt{}, stage.Die("the bank is not asked yet")
	}
	fence, _ := guard.FenceFromContext(ctx) // none without the guard
	receipt, err := a.bank.Charge(ctx, o, fence)
	if err == nil && a.dies == after {
		err = stage.Die("the bank has charged, and nobody knows")
	}
	return receipt, err
}

// Reconcile asks the bank what became of a charge, and settles its key: with the receipt, or free for
// another charge.
func (a *Activities) Reconcile(ctx context.Context, unknown temporalx.OutcomeUnknown) error {
	// From now on the bank refuses the fence of the lost run, so that "there is none" is final. The
	// fence of the next owner is larger than the one that is given here. Of a bank that knows no fences
	// it is final only when no request can be on its way any more.
	receipts, err := a.bank.Charges(ctx, unknown.Key, unknown.Fence+1)
	if err != nil {
		return err
	}
	info := activity.GetInfo(ctx)
	resolution := guard.Resolution[any]{
		Fence: unknown.Fence, As: guard.StatusReleased, By: "Reconcile",
		// The same in all attempts: one after the settling succeeds.
		ID: info.WorkflowExecution.RunID + "/" + info.ActivityID,
	}
	if len(receipts) > 0 {
		resolution.As, resolution.Value = guard.StatusCompleted, receipts[0]
	}
	err = a.guarded.Resolve(ctx, unknown.Operation, unknown.Key, resolution)
	if errors.Is(err, guard.ErrNotResolved) {
		err = nil // somebody else was faster, and the next charge finds what they said
	}
	fmt.Printf("%s: the bank has %d charges, the key is %s\n", unknown.Key, len(receipts), resolution.As)
	return err
}
