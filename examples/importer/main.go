// Importer writes batches in one long activity that heartbeats how far it is. Its first attempt
// hangs after a batch was written and before that was heartbeaten, until the server gives it up. The
// next attempt goes on from what was heartbeaten last, and comes to that batch again. Each
// batch is written once: not the activity is guarded, but each batch in it.
//
//	temporal server start-dev
//	go run ./importer
//	go run ./importer -guard=off    writes a batch twice
package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/examples/internal/setup"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

func main() { setup.Main("importer", run) }

const (
	batches    = 8
	hangsAfter = 5 // batches
	batchTakes = 100 * time.Millisecond
	heartbeat  = time.Second // without one for so long the server gives an attempt up
)

func run(ctx context.Context, env setup.Env) error {
	a := &Activities{env: env, to: newDestination()}
	var err error
	if a.batch, err = batchOperation(env); err != nil {
		return err
	}
	w := worker.New(env.Client, env.Run, worker.Options{})
	w.RegisterWorkflow(ImportAll)
	w.RegisterActivity(a)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()

	options := client.StartWorkflowOptions{ID: env.Run, TaskQueue: env.Run}
	imported, err := env.Client.ExecuteWorkflow(ctx, options, ImportAll, batches)
	if err != nil {
		return err
	}
	if err := imported.Get(ctx, nil); err != nil {
		return err
	}
	once, more := a.to.count()
	env.Say("%d of %d batches are written once, %d more than once", once, batches, more)
	if once != batches || more > 0 {
		return fmt.Errorf("%w: not every batch is written once", setup.ErrInvariant)
	}
	return nil
}

// batchOperation makes the operation that writes a batch, or switches it off.
func batchOperation(env setup.Env) (*guard.Operation[int], error) {
	g, err := guard.New(env.Store)
	if err != nil {
		return nil, err
	}
	return guard.NewOperation[int](g, "import.batch",
		guard.OnStorageError(guard.FailClosed), guard.WithEnabled(func() bool { return env.Guard }))
}

// ImportAll is the workflow.
func ImportAll(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute,
		HeartbeatTimeout:    heartbeat,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond},
	})
	var a *Activities
	return workflow.ExecuteActivity(ctx, a.Import, n).Get(ctx, nil)
}

// Activities has the activity.
type Activities struct {
	env   setup.Env
	to    *destination
	batch *guard.Operation[int]
}

// Import writes the batches 1 to n, from the first that was not heartbeaten.
func (a *Activities) Import(ctx context.Context, n int) error {
	var done int
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &done); err != nil {
			return err
		}
	}
	attempt := activity.GetInfo(ctx).Attempt
	a.env.Say("attempt %d begins after batch %d", attempt, done)
	for i := done + 1; i <= n; i++ {
		result, err := a.importBatch(ctx, i)
		if err != nil {
			return err
		}
		a.env.Say("attempt %d: batch %d: %s", attempt, i, result.How)
		if attempt == 1 && i == hangsAfter {
			a.env.Say("attempt %d hangs", attempt)
			<-activity.GetWorkerStopChannel(ctx)
			return ctx.Err()
		}
		activity.RecordHeartbeat(ctx, i)
	}
	return nil
}

// importBatch writes one batch. The key of the activity is the same in all its attempts, and in no other
// import.
func (a *Activities) importBatch(ctx context.Context, i int) (guard.Result[int], error) {
	key, err := temporalx.Key(ctx)
	if err != nil {
		return guard.Result[int]{}, err
	}
	return a.batch.DoResult(ctx, fmt.Sprintf("%s/batch/%d", key, i), func(context.Context) (int, error) {
		time.Sleep(batchTakes)
		a.to.write(i)
		return i, nil
	})
}
