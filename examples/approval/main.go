// Approval asks a person for a decision, in an activity that is completed later and elsewhere. Two
// workflows want the same order approved at once, and a third one asks later. One request is sent, and
// all get its decision. So they do if the answer is no, which is an error of the activity. When an
// attempt is over before the answer comes, the next one sends another request, and the answer
// to the first is refused.
//
//	approval [-temporal address] [-redis address] [-guard=off]
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/examples/internal/stage"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

func main() { stage.Main("approval", play) }

// What the approver does with a request for an order. The names of orders begin with it.
const (
	approves     = "approved"
	rejects      = "rejected"
	answersLate  = "late" // when the attempt that has sent it is over
	workflows    = 2      // that ask at once
	thinkingTime = time.Minute
	shortTime    = 2 * time.Second
)

func play(ctx context.Context, env *stage.Env) error {
	store, err := env.Store()
	if err != nil {
		return err
	}
	approver, err := newApprover(env, store)
	if err != nil {
		return err
	}
	stop, err := startWorker(env, store, approver)
	if err != nil {
		return err
	}
	defer stop()

	ctx, cancel := context.WithCancelCause(ctx)
	var working sync.WaitGroup
	working.Go(func() { cancel(approver.work(ctx)) })
	defer working.Wait()
	defer cancel(nil)

	err = errors.Join(
		together(ctx, env, approver, approves),
		together(ctx, env, approver, rejects))
	if env.Guard {
		err = errors.Join(err, tooLate(ctx, env, approver))
	}
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	fmt.Println("each order was decided once")
	return nil
}

// together has workflows ask for one order at once, and one more when they have the answer.
func together(ctx context.Context, env *stage.Env, a *approver, kind string) error {
	order := kind + "-" + env.Run
	var runs []client.WorkflowRun
	for i := range workflows {
		run, err := ship(ctx, env, order, i+1, thinkingTime)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	told := make(map[Decision]bool)
	for _, run := range runs {
		told[decisionOf(ctx, run)] = true
	}
	later, err := ship(ctx, env, order, workflows+1, thinkingTime)
	if err != nil {
		return err
	}
	told[decisionOf(ctx, later)] = true
	requests := a.requests(order)
	fmt.Printf("%s: %d requests were sent\n", order, requests)
	if want := (Decision{Request: 1, Approved: kind == approves}); requests != 1 || len(told) != 1 || !told[want] {
		return fmt.Errorf("%s: %d requests, and the decisions %v; want one request, and %v for all", order, requests, told, want)
	}
	return nil
}

// tooLate has the approver answer a request whose attempt is over.
func tooLate(ctx context.Context, env *stage.Env, a *approver) error {
	order := answersLate + "-" + env.Run
	run, err := ship(ctx, env, order, 1, shortTime)
	if err != nil {
		return err
	}
	got := decisionOf(ctx, run)
	if a.refused(order) != 1 || got.Request < 2 || !got.Approved {
		return fmt.Errorf("%s: %d answers were refused, and the decision is %v; want one, and that on a later request", order, a.refused(order), got)
	}
	return nil
}

func ship(ctx context.Context, env *stage.Env, order string, n int, thinking time.Duration) (client.WorkflowRun, error) {
	options := client.StartWorkflowOptions{ID: workflowID(order, n), TaskQueue: env.Run}
	return env.Client.ExecuteWorkflow(ctx, options, ShipOrder, order, thinking)
}

func workflowID(order string, n int) string { return fmt.Sprintf("%s-%d", order, n) }

// decisionOf is what a workflow was told. A no is an application error, with the decision as its details.
func decisionOf(ctx context.Context, run client.WorkflowRun) (d Decision) {
	err := run.Get(ctx, &d)
	if no, ok := errors.AsType[*temporal.ApplicationError](err); ok && no.Type() == typeRejected {
		err = no.Details(&d)
	}
	if err != nil {
		fmt.Printf("%s failed: %v\n", run.GetID(), err)
		return Decision{}
	}
	fmt.Printf("%s has the decision on request %d: approved %t\n", run.GetID(), d.Request, d.Approved)
	return d
}

func startWorker(env *stage.Env, store guard.Store, to *approver) (stop func(), err error) {
	var options worker.Options
	if env.Guard {
		guarded, err := guardApprovals(store)
		if err != nil {
			return nil, err
		}
		options.Interceptors = []interceptor.WorkerInterceptor{guarded}
	}
	w := worker.New(env.Client, env.Run, options)
	w.RegisterWorkflow(ShipOrder)
	w.RegisterActivity(&Activities{approver: to})
	return w.Stop, w.Start()
}

// guardApprovals makes the interceptor of the worker, and another one for the approver. An error leaves
// a key free, so that the next call would ask again. But a no is an answer, and
// the only error that is not retried: it is remembered.
func guardApprovals(store guard.Store) (*temporalx.Interceptor, error) {
	g, err := guard.New(store)
	if err != nil {
		return nil, err
	}
	return temporalx.New(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: activityType,
			Key:      temporalx.KeyFrom(func(order string) (string, error) { return order, nil }),
			Options: []guard.OperationOption{
				guard.OnStorageError(guard.FailClosed), guard.OnFailure(temporalx.RememberNonRetryable),
			},
		}},
	})
}
