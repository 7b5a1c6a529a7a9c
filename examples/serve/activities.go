package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// Purchase is what the workflow is given.
type Purchase struct {
	provider.Order
	Lease time.Duration // attempts may take twice as long
	Queue string        // of the activities
	Steps []string      // the activities
}

// Checkout is the workflow.
func Checkout(ctx workflow.Context, p Purchase) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: p.Queue, StartToCloseTimeout: 2 * p.Lease,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: p.Lease / 10, BackoffCoefficient: 1.5, MaximumAttempts: 10},
	})
	for _, step := range p.Steps {
		if err := workflow.ExecuteActivity(ctx, step, p.Order).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// The activities of the workflow.
const (
	actReserve = "ReserveStock"
	actCharge  = "ChargeCard"
	actReceipt = "SendReceipt"
	actApprove = "Approve"
)

// Activities are those of the workflow.
type Activities struct {
	provider provider.Client
	// takes lets an effect take its time. It returns early with the context's error.
	takes func(ctx context.Context) error
	// approve answers an activity that waits for a yes, some time later. A doomed worker has none.
	approve func(token []byte)
}

// Orders that begin so lose the answer of the other side in their first attempt.
const doubtful = "doubt-"

var errNoAnswer = errors.New("no answer")

func answerIsLost(ctx context.Context, o provider.Order) bool {
	return strings.HasPrefix(o.ID, doubtful) && activity.GetInfo(ctx).Attempt == 1
}

// ReserveStock is guarded with the defaults: it fails open, and a run that died is repeated.
func (a *Activities) ReserveStock(ctx context.Context, o provider.Order) (string, error) {
	return "reserved " + o.ID, a.takes(ctx)
}

// ChargeCard has a recovery hook. The provider gets the fence.
func (a *Activities) ChargeCard(ctx context.Context, o provider.Order) (provider.Receipt, error) {
	fence, _ := guard.FenceFromContext(ctx)
	receipt, err := a.provider.Charge(ctx, o, fence)
	switch {
	case errors.Is(err, provider.ErrDeclined):
		return receipt, temporal.NewNonRetryableApplicationError("the card is declined", "CardDeclined", err)
	case err != nil:
		return receipt, err
	case answerIsLost(ctx, o):
		return provider.Receipt{}, errNoAnswer
	}
	return receipt, a.takes(ctx)
}

// SendReceipt runs at most once: nobody can be asked whether a mail went out.
func (a *Activities) SendReceipt(ctx context.Context, o provider.Order) error {
	if answerIsLost(ctx, o) {
		return errNoAnswer
	}
	return a.takes(ctx)
}

// Approve is completed later.
func (a *Activities) Approve(ctx context.Context, _ provider.Order) (yes bool, err error) { //nolint:unparam // who completes it says yes
	token, err := temporalx.CompletionToken(ctx)
	if err != nil {
		return false, err
	}
	if a.approve != nil {
		a.approve(token)
	}
	return false, activity.ErrResultPending
}

// whatItMeans is the failure policy of ChargeCard.
func whatItMeans(err error, _ bool) guard.Disposition {
	switch {
	case errors.Is(err, provider.ErrDeclined):
		return guard.Remember
	case errors.Is(err, provider.ErrFenceTooOld):
		return guard.Release
	default:
		return guard.Undecided
	}
}
