package temporalx_test

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
)

// gated is an activity that ignores its context and ends when it is told to.
type gated struct {
	effects
	began chan struct{}
	end   chan struct{}
}

func newGated() *gated { return &gated{began: make(chan struct{}, 10), end: make(chan struct{})} }

func (g *gated) run(_ context.Context, o Order) (Receipt, error) {
	g.began <- struct{}{}
	<-g.end
	return g.charge(o), nil
}

func TestCase_T1_AWorkerThatStoppedKeepsTheKeyUntilItsActionReturns(t *testing.T) {
	t.Parallel()
	store, charge := guard.NewMemoryStore(), newGated()
	options := []guard.GuardOption{guard.WithLease(300 * time.Millisecond)}
	stopped := newBench(t, setup{store: store, options: options})
	stopped.activity("Charge", charge.run)
	stopped.Worker.RegisterWorkflow(impatient)
	if err := stopped.Worker.Start(); err != nil {
		t.Fatal(err)
	}
	run := stopped.run(impatient, Order{ID: "o-1", Amount: 5})
	<-charge.began
	stopped.Worker.Stop()

	other := newBench(t, setup{store: store, options: options})
	waiting := make(chan struct{}, 10)
	other.activity("Charge", func(context.Context, Order) (Receipt, error) {
		t.Error("the charge ran again while the first one was running")
		return Receipt{}, nil
	})
	other.seen.begin = waiting
	other.Worker.RegisterWorkflow(impatient)
	other.start()
	<-waiting // the next attempt is there, five leases after the worker stopped
	close(charge.end)
	if got, want := get[Receipt](t, run), (Receipt{"charge-1", 5}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	charge.want(t, 1)
}

func TestCase_T6_TheResultIsStoredAlthoughTheWorkflowIsCancelled(t *testing.T) {
	t.Parallel()
	spy, charge := &spyStore{Store: guard.NewMemoryStore(), replaced: make(chan guard.Key, 1)}, newGated()
	b := newBench(t, setup{store: spy, rules: chargeByOrder()})
	b.activity("Charge", charge.run)
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	run := b.run(chargeOnce, Order{ID: "o-1"})
	<-charge.began
	if err := b.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()); err != nil {
		t.Fatal(err)
	}
	if err := run.Get(t.Context(), nil); !temporal.IsCanceledError(err) {
		t.Errorf("the workflow ended with %v, want a cancel", err)
	}
	close(charge.end)
	key := <-spy.replaced
	loaded, err := spy.Load(t.Context(), guard.LoadRequest{Key: key})
	if err != nil || loaded.Record.Status != guard.StatusCompleted {
		t.Errorf("record %+v, error %v, want a completed one", loaded.Record, err)
	}
	if got := get[Receipt](t, b.run(chargeOnce, Order{ID: "o-1"})); got.Charge != "charge-1" {
		t.Errorf("a later workflow got %+v, want the charge of the cancelled one", got)
	}
	charge.want(t, 1)
}

func TestCase_T17_AfterTheRetentionTheNextAttemptRunsAgain(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{options: []guard.GuardOption{guard.WithRetention(50 * time.Millisecond)}})
	b.activity("Charge", func(ctx context.Context, o Order) (Receipt, error) {
		if activity.GetInfo(ctx).Attempt == 1 {
			<-ctx.Done() // the server does not hear of this attempt's result
		}
		return done.charge(o), nil
	})
	slowRetry := func(ctx workflow.Context) (receipt Receipt, err error) {
		policy := retries(2)
		policy.InitialInterval = time.Second
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Second, RetryPolicy: policy,
		})
		err = workflow.ExecuteActivity(ctx, "Charge", Order{ID: "o-1"}).Get(ctx, &receipt)
		return receipt, err
	}
	b.Worker.RegisterWorkflowWithOptions(slowRetry, workflow.RegisterOptions{Name: "slowRetry"})
	b.start()
	if got := get[Receipt](t, b.run("slowRetry")); got.Charge != "charge-2" {
		t.Errorf("got %+v, want the second charge", got)
	}
	done.want(t, 2)
}
