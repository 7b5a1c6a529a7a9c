// Approval asks a person for a decision, in an activity that is completed later and elsewhere. Two
// workflows want the same order approved at once. One request is sent, and both get its decision.
//
//	temporal server start-dev
//	go run ./approval
//	go run ./approval -guard=off    sends a request for each workflow
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/examples/internal/setup"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

func main() { setup.Main("approval", run) }

const workflows = 2

func run(ctx context.Context, env setup.Env) error {
	approver, err := newApprover(env)
	if err != nil {
		return err
	}
	stop, err := startWorker(env, approver)
	if err != nil {
		return err
	}
	defer stop()

	ctx, cancel := context.WithCancelCause(ctx)
	var working sync.WaitGroup
	working.Go(func() { cancel(approver.work(ctx)) })
	defer working.Wait()
	defer cancel(nil)

	order := env.Run + "-order"
	decisions, err := shipOrders(ctx, env, order)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	requests := approver.requests(order)
	env.Say("%d requests were sent for %s", requests, order)
	if requests != 1 || decisions[0] != decisions[1] {
		return fmt.Errorf("%w: want one request, and its decision for both workflows", setup.ErrInvariant)
	}
	return nil
}

// shipOrders runs the workflows for the one order, at once, and returns what each was told.
func shipOrders(ctx context.Context, env setup.Env, order string) (decisions [workflows]Decision, err error) {
	var runs [workflows]client.WorkflowRun
	for i := range runs {
		options := client.StartWorkflowOptions{ID: fmt.Sprintf("%s-%d", env.Run, i+1), TaskQueue: env.Run}
		if runs[i], err = env.Client.ExecuteWorkflow(ctx, options, ShipOrder, order); err != nil {
			return decisions, err
		}
	}
	for i, run := range runs {
		if err := run.Get(ctx, &decisions[i]); err != nil {
			return decisions, err
		}
		env.Say("%s has the decision on request %d: approved %t", run.GetID(), decisions[i].Request, decisions[i].Approved)
	}
	return decisions, nil
}

func startWorker(env setup.Env, to *approver) (stop func(), err error) {
	var options worker.Options
	if env.Guard {
		guarded, err := guardApprovals(env.Store)
		if err != nil {
			return nil, err
		}
		options.Interceptors = []interceptor.WorkerInterceptor{guarded}
	}
	w := worker.New(env.Client, env.Run, options)
	w.RegisterWorkflow(ShipOrder)
	w.RegisterActivity(&Activities{env: env, approver: to})
	return w.Stop, w.Start()
}

// guardApprovals makes the interceptor of the worker, and another one for the approver.
func guardApprovals(store guard.Store) (*temporalx.Interceptor, error) {
	g, err := guard.New(store)
	if err != nil {
		return nil, err
	}
	return temporalx.New(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "AskForApproval",
			Key:      temporalx.KeyFrom(func(order string) (string, error) { return order, nil }),
			Options:  []guard.OperationOption{guard.OnStorageError(guard.FailClosed)},
		}},
	})
}

// ShipOrder is the workflow.
func ShipOrder(ctx workflow.Context, order string) (decision Decision, err error) {
	// The time to start is that of the approver too.
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var a *Activities
	err = workflow.ExecuteActivity(ctx, a.AskForApproval, order).Get(ctx, &decision)
	return decision, err
}

// Activities has the activity.
type Activities struct {
	env      setup.Env
	approver *approver
}

// AskForApproval sends a request. The approver completes the activity: who holds the token can.
func (a *Activities) AskForApproval(ctx context.Context, order string) (Decision, error) {
	token, err := temporalx.CompletionToken(ctx)
	if err != nil {
		return Decision{}, err
	}
	a.env.Say("%s sends a request", activity.GetInfo(ctx).WorkflowExecution.ID)
	a.approver.send(order, token)
	return Decision{}, activity.ErrResultPending
}
