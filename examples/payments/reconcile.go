package main

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// reconciliations is how often CheckoutAndReconcile has an unknown outcome settled
// before it gives up.
const reconciliations = 3

// CheckoutAndReconcile is Checkout for the case that not even the recovery hook could
// find out whether the card is charged. It takes the time to settle that, and goes on.
func CheckoutAndReconcile(ctx workflow.Context, order Order) (receipt Receipt, err error) {
	var activities *Activities
	for range reconciliations {
		receipt, err = Checkout(ctx, order)
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != temporalx.TypeOutcomeUnknown {
			return receipt, err
		}
		var unknown temporalx.OutcomeUnknown
		if err := app.Details(&unknown); err != nil {
			return Receipt{}, err
		}
		// It is tried until the provider answers.
		reconcile := workflow.WithActivityOptions(ctx, attempts())
		if err := workflow.ExecuteActivity(reconcile, activities.Reconcile, unknown).Get(ctx, nil); err != nil {
			return Receipt{}, err
		}
	}
	return Checkout(ctx, order)
}

// Reconcile asks the provider what became of a charge, and settles its key: with the
// receipt, or free for another attempt. The next ChargeCard of the order tells which.
func (a *Activities) Reconcile(ctx context.Context, unknown temporalx.OutcomeUnknown) error {
	say(ctx, "reconciles the charge of "+unknown.Owner)
	resolution := guard.Resolution[any]{Fence: unknown.Fence, As: guard.StatusReleased, By: "Reconcile"}
	// The fence of the next owner is larger than that of the last, so one more refuses
	// what may still be on its way from that one, and nobody else: "none" is final then.
	receipts, err := a.provider.Charges(ctx, unknown.Key, unknown.Fence+1)
	if len(receipts) > 0 {
		resolution.As, resolution.Value = guard.StatusCompleted, receipts[0]
	}
	if err == nil {
		err = a.guarded.Resolve(ctx, unknown.Operation, unknown.Key, resolution)
	}
	switch {
	case errors.Is(err, provider.ErrFenceTooOld), errors.Is(err, guard.ErrNotResolved):
		say(ctx, "somebody else has had the key since: "+err.Error())
		return nil
	case err == nil:
		say(ctx, "the key is "+string(resolution.As))
	}
	return err
}
