package temporalx_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/temporalx"
)

// Here the listing of docs/temporal.md begins.

func runWorker(c client.Client, g *guard.Guard, rdb *redis.Client, bank Bank, interrupt <-chan any) error {
	plugin, err := temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "ChargeCard",
			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
			Options:  []guard.OperationOption{guard.ForPayments(), guard.AtMostOnce()},
		}},
	})
	if err != nil {
		return err
	}
	w := worker.New(c, "payments", worker.Options{
		Plugins:           []worker.Plugin{plugin},
		WorkerStopTimeout: 10 * time.Second, // activities that run may end in this time
	})
	w.RegisterWorkflow(Checkout)
	w.RegisterActivity(&Payments{bank, plugin.Interceptor()})
	err = w.Run(interrupt) // worker.InterruptCh(); it returns when the worker has stopped
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(err, g.Drain(ctx), rdb.Close())
}

func Checkout(ctx workflow.Context, order Order) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	charge := func() error { return workflow.ExecuteActivity(ctx, "ChargeCard", order).Get(ctx, &receipt) }
	err = charge()
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != temporalx.TypeOutcomeUnknown {
		return receipt, err
	}
	var unknown temporalx.OutcomeUnknown
	if err := app.Details(&unknown); err != nil {
		return receipt, err
	}
	if err := workflow.ExecuteActivity(ctx, "Reconcile", unknown).Get(ctx, nil); err != nil {
		return receipt, err // it is tried until the bank answers
	}
	err = charge() // the receipt that Reconcile has found, or a new charge
	return receipt, err
}

type Payments struct {
	bank    Bank
	guarded *temporalx.Interceptor
}

func (p *Payments) ChargeCard(ctx context.Context, o Order) (Receipt, error) {
	fence, _ := guard.FenceFromContext(ctx)
	return p.bank.Charge(ctx, o, fence)
}

func (p *Payments) Reconcile(ctx context.Context, unknown temporalx.OutcomeUnknown) error {
	// From now on the bank refuses smaller fences, so that "there is none" is final.
	receipt, found, err := p.bank.Find(ctx, unknown.Key, unknown.Fence+1)
	if err != nil {
		return err
	}
	info := activity.GetInfo(ctx)
	resolution := guard.Resolution[any]{
		Fence: unknown.Fence, As: guard.StatusReleased, By: "Reconcile",
		ID: info.WorkflowExecution.RunID + "/" + info.ActivityID, // the same in all attempts
	}
	if found {
		resolution.As, resolution.Value = guard.StatusCompleted, receipt
	}
	err = p.guarded.Resolve(ctx, unknown.Operation, unknown.Key, resolution)
	if errors.Is(err, guard.ErrNotResolved) {
		err = nil // somebody else was faster, and the next charge finds what they said
	}
	return err
}

// Here it ends.

// Bank is the side that charges.
type Bank interface {
	Charge(ctx context.Context, o Order, fence int64) (Receipt, error)
	Find(ctx context.Context, order string, fence int64) (Receipt, bool, error)
}

// forgetfulBank books a charge, and its first answer is lost.
type forgetfulBank struct {
	done  effects
	given Receipt
}

func (b *forgetfulBank) Charge(_ context.Context, o Order, _ int64) (Receipt, error) {
	b.given = b.done.charge(o)
	if b.done.n.Load() == 1 {
		return Receipt{}, errors.New("connection reset")
	}
	return b.given, nil
}

func (b *forgetfulBank) Find(context.Context, string, int64) (Receipt, bool, error) {
	return b.given, b.done.n.Load() > 0, nil
}

func TestListing_TheWorkflowHasTheReceiptOfTheChargeWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: realtest.SharedRedis(t).Addr(), ContextTimeoutEnabled: true})
	store, err := redisx.New(rdb, redisx.Options{Prefix: uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(store)
	if err != nil {
		t.Fatal(err)
	}
	c, bank := realtest.SharedTemporal(t).Client(), &forgetfulBank{}
	interrupt, ended := make(chan any), make(chan error, 1)
	go func() { ended <- runWorker(c, g, rdb, bank, interrupt) }()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "payments"}, Checkout, Order{ID: "order-4711", Amount: 995})
	if err != nil {
		t.Fatal(err)
	}
	var receipt Receipt
	if err := run.Get(t.Context(), &receipt); err != nil {
		t.Error(err)
	}
	if want := (Receipt{Charge: "charge-1", Amount: 995}); receipt != want {
		t.Errorf("got %+v, want %+v", receipt, want)
	}
	bank.done.want(t, 1)
	close(interrupt)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := rdb.Ping(context.Background()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("the client of Redis: %v, want it closed", err)
	}
	if said := lastFailures(t, c, run); !strings.Contains(said, "connection reset") {
		t.Errorf("the history has %q, want the error of the attempt before the unknown outcome", said)
	}
}

// lastFailures is what the history has of the attempts before those that ended the activities.
func lastFailures(t *testing.T, c client.Client, run client.WorkflowRun) string {
	t.Helper()
	var said strings.Builder
	events := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		said.WriteString(event.GetActivityTaskStartedEventAttributes().GetLastFailure().GetMessage())
	}
	return said.String()
}

func TestListing_IsThatOfTheDocument(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("listing_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, listing, _ := strings.Cut(string(source), "// Here the listing of docs/temporal.md begins.\n\n")
	listing, _, whole := strings.Cut(listing, "\n// Here it ends.\n")
	doc, err := os.ReadFile("../docs/temporal.md")
	if err != nil {
		t.Fatal(err)
	}
	if !whole || !strings.Contains(string(doc), "```go\n"+listing+"```\n") {
		t.Errorf("docs/temporal.md does not have the listing:\n%s", listing)
	}
}
