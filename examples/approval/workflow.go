package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/temporalx"
)

// The names by which the approver finds an activity without its token.
const (
	activityType = "AskForApproval"
	activityID   = "approval"
)

// Decision is the approver's answer.
type Decision struct {
	Request  int // the number of the request that it answers
	Approved bool
}

// typeRejected is the error of a no.
const typeRejected = "Rejected"

func (d Decision) rejection() error {
	return temporal.NewNonRetryableApplicationError("the approver says no", typeRejected, nil, d)
}

// ShipOrder is the workflow. An attempt of its activity lasts until the approver has decided, at
// most for the thinking time.
func ShipOrder(ctx workflow.Context, order string, thinking time.Duration) (decision Decision, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID: activityID, StartToCloseTimeout: thinking,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1},
	})
	var a *Activities
	err = workflow.ExecuteActivity(ctx, a.AskForApproval, order).Get(ctx, &decision)
	return decision, err
}

// Activities has the activity.
type Activities struct{ approver *approver }

// AskForApproval sends a request. The approver completes the activity: who holds the token can.
func (a *Activities) AskForApproval(ctx context.Context, order string) (Decision, error) {
	token, err := temporalx.CompletionToken(ctx)
	if err != nil {
		return Decision{}, err
	}
	info := activity.GetInfo(ctx)
	fmt.Printf("%s, attempt %d, sends a request\n", info.WorkflowExecution.ID, info.Attempt)
	a.approver.send(order, token)
	return Decision{}, activity.ErrResultPending
}
