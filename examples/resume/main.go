// Resume posts a file to a ledger, batch by batch, in one long activity that heartbeats how far
// it is. Three attempts end badly: one hangs after a batch, before its heartbeat, until the server gives
// it up; the worker of another is killed at such a point; and that of a third before the guard has
// stored that its batch is posted. The next attempt goes on from the last heartbeat, and
// each batch is posted once.
//
//	resume [-temporal address] [-redis address] [-guard=off]
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
)

// The file, and the batches with which an attempt hangs, the first worker dies, and the second.
const (
	batches      = 10
	hangs        = 2
	diesUnheard  = 4
	diesUnstored = 7
)

func main() { stage.MainOfTwo("resume", play, runWorker) }

func play(ctx context.Context, env *stage.Env) error {
	redis, err := env.Redis()
	if err != nil {
		return err
	}
	ledger := provider.NewLedger()
	ledgerServer := httptest.NewServer(provider.Handler(ledger, provider.Options{}))
	defer ledgerServer.Close()

	options := client.StartWorkflowOptions{ID: env.Run, TaskQueue: env.Run}
	run, err := env.Client.ExecuteWorkflow(ctx, options, ImportFile, batches)
	if err != nil {
		return err
	}
	worker := config{Temporal: env.Temporal, Redis: redis, Ledger: ledgerServer.URL, Queue: env.Run, Guarded: env.Guard}
	first, second := worker, worker
	first.Hangs, first.DiesUnheard = hangs, diesUnheard
	second.DiesUnstored = diesUnstored
	for _, dies := range []config{first, second} {
		if err := untilDead(ctx, dies); err != nil {
			return err
		}
	}
	last, err := stage.StartWorker(worker)
	if err != nil {
		return err
	}
	defer last.Kill()
	if err := run.Get(ctx, nil); err != nil {
		return err
	}
	return judge(ledger.Book())
}

// untilDead has a worker work until it dies.
func untilDead(ctx context.Context, c config) error {
	worker, err := stage.StartWorker(c)
	if err != nil {
		return err
	}
	select {
	case <-worker.Gone():
		return nil
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	worker.Kill()
	return errors.New("the worker does not die")
}

// judge wants one posting of each batch, and that of the end.
func judge(book map[string][]provider.Receipt) error {
	var wrong []error
	for entry, postings := range book {
		if len(postings) != 1 {
			wrong = append(wrong, fmt.Errorf("%s was posted %d times", entry, len(postings)))
		}
	}
	if want := batches + 1; len(book) != want {
		wrong = append(wrong, fmt.Errorf("the ledger has %d different entries, want %d", len(book), want))
	}
	if len(wrong) == 0 {
		fmt.Println("each batch was posted once")
	}
	return errors.Join(wrong...)
}
