// Resume posts a file to a ledger, batch by batch, in one long activity that heartbeats how far
// it is. Its worker is killed twice: right after a batch was posted, before the heartbeat that says so; and
// right after another was posted, before the guard has stored that. The next attempt goes on from the last
// heartbeat, and each batch is posted once.
//
//	resume [-temporal address] [-redis address] [-guard=off]
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
)

// The file, and the batches with which the first worker dies, and the second.
const (
	batches      = 10
	diesUnheard  = 4
	diesUnstored = 7
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		return runWorker(ctx, os.Args[2:])
	}
	temporalAddr := flag.String("temporal", "", "address of a Temporal server; without, a dev server is started")
	redisAddr := flag.String("redis", "", "address of a Redis for the guard; without, an imitation is started")
	useGuard := flag.String("guard", "on", "off: leave the guard out, and fail")
	flag.Parse()
	if err := play(ctx, *temporalAddr, *redisAddr, *useGuard != "off"); err != nil {
		return err
	}
	fmt.Println("each batch was posted once")
	return nil
}

func play(ctx context.Context, temporalAddr, redisAddr string, useGuard bool) error {
	server, err := stage.StartTemporal(ctx, temporalAddr)
	if err != nil {
		return err
	}
	defer server.Close()
	redisAddr, stopRedis, err := stage.StartRedis(redisAddr)
	if err != nil {
		return err
	}
	defer stopRedis()
	ledger := provider.NewLedger()
	ledgerServer := httptest.NewServer(provider.Handler(ledger, provider.Options{}))
	defer ledgerServer.Close()

	id := "import-" + rand.Text()
	run, err := server.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: id}, ImportFile, batches)
	if err != nil {
		return err
	}
	worker := config{temporal: server.Addr, redis: redisAddr, ledger: ledgerServer.URL, queue: id, guarded: useGuard}
	first, second := worker, worker
	first.diesUnheard, second.diesUnstored = diesUnheard, diesUnstored
	for _, dies := range []config{first, second} {
		if err := untilDead(ctx, dies); err != nil {
			return err
		}
	}
	last, err := stage.StartSelf(worker.args()...)
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
	worker, err := stage.StartSelf(c.args()...)
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
	return errors.Join(wrong...)
}
