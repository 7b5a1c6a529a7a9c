package main

import (
	"context"
	"crypto/sha256"
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

// heartbeatTimeout is how long it takes until a dead worker, or an attempt that hangs, is noticed.
const heartbeatTimeout = 2 * time.Second

// ImportFile is the workflow: it imports a file of postings and closes the books on it.
func ImportFile(ctx workflow.Context, batches int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Hour, HeartbeatTimeout: heartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1},
	})
	var i *Importer
	if err := workflow.ExecuteActivity(ctx, i.Import, batches).Get(ctx, nil); err != nil {
		return err
	}
	return workflow.ExecuteActivity(ctx, i.CloseBooks, batches).Get(ctx, nil)
}

// Importer is the activities of the worker.
type Importer struct {
	ledger provider.Client
	batch  *guard.Operation[provider.Receipt] // guards the posting of one batch
	ends   badEnds
}

// Import posts the batches of a file, one after the other. It is not guarded as a whole: it
// would have no result until the last batch. It heartbeats how far it is, and a later
// attempt goes on from there; what was posted since is not posted again, because each batch is
// guarded, under a key that is the same in all attempts.
func (i *Importer) Import(ctx context.Context, batches int) error {
	done := 0 // batches
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &done); err != nil {
			return err
		}
	}
	key, err := temporalx.Key(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("attempt %d begins with batch %d\n", activity.GetInfo(ctx).Attempt, done+1)
	for n := done + 1; n <= batches; n++ {
		if err := i.postOnce(ctx, batchKey(key, n), n); err != nil {
			return err
		}
		if n == i.ends.Hangs && activity.GetInfo(ctx).Attempt == 1 {
			return i.hang(ctx)
		}
		if n == i.ends.DiesUnheard {
			return stage.Die(fmt.Sprintf("batch %d is posted, and no heartbeat says so", n))
		}
		activity.RecordHeartbeat(ctx, n)
	}
	return nil
}

// batchKey is the key of a batch. The activity's own key is shortened, since it may be as long as a key
// can be, 255 bytes.
func batchKey(key string, n int) string {
	digest := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%x/batch/%d", digest[:16], n)
}

// postOnce posts a batch, unless it has been posted.
func (i *Importer) postOnce(ctx context.Context, key string, n int) error {
	result, err := i.batch.DoResult(ctx, key, func(ctx context.Context) (provider.Receipt, error) {
		fence, _ := guard.FenceFromContext(ctx) // none without the guard
		receipt, err := i.ledger.Charge(ctx, provider.Order{ID: key, Cents: int64(n) * 100}, fence)
		if err == nil && n == i.ends.DiesUnstored {
			err = stage.Die(fmt.Sprintf("batch %d is posted, and nobody knows", n))
		}
		return receipt, err
	})
	fmt.Printf("batch %d: %s\n", n, result.How)
	return err
}

// hang does no more, for as long as the worker lives. Without heartbeats the server gives the attempt up.
func (i *Importer) hang(ctx context.Context) error {
	fmt.Println("attempt 1 hangs")
	<-activity.GetWorkerStopChannel(ctx)
	return ctx.Err()
}

// CloseBooks is an activity like any other, and guarded as a whole.
func (i *Importer) CloseBooks(ctx context.Context, batches int) (provider.Receipt, error) {
	key, err := temporalx.Key(ctx)
	if err != nil {
		return provider.Receipt{}, err
	}
	return i.ledger.Charge(ctx, provider.Order{ID: key + "/closed", Cents: int64(batches)}, 0)
}

// askLedger is the recovery hook of a batch: has the ledger got it? From then on the ledger
// refuses the fence of whoever was before, so that no request of theirs arrives after the answer.
func (i *Importer) askLedger(ctx context.Context, lost guard.Evidence) (provider.Receipt, guard.Finding, error) {
	receipts, err := i.ledger.Charges(ctx, lost.Key.Name, lost.Fence)
	switch {
	case err != nil:
		return provider.Receipt{}, guard.CannotTell, err
	case len(receipts) == 0:
		return provider.Receipt{}, guard.NotFound, nil
	default:
		return receipts[0], guard.Found, nil
	}
}
