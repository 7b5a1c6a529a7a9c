package temporalx_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// chargeAndReconcile is a workflow that has an unknown outcome settled, and then asks
// for the charge once more.
func chargeAndReconcile(ctx workflow.Context, o Order) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: shortAttempt, RetryPolicy: retries(3),
	})
	charge := func() error { return workflow.ExecuteActivity(ctx, "Charge", o).Get(ctx, &receipt) }
	var app *temporal.ApplicationError
	if err = charge(); !errors.As(err, &app) || app.Type() != temporalx.TypeOutcomeUnknown {
		return receipt, err
	}
	var unknown temporalx.OutcomeUnknown
	if err := app.Details(&unknown); err != nil {
		return receipt, err
	}
	if err := workflow.ExecuteActivity(ctx, "Reconcile", unknown).Get(ctx, nil); err != nil {
		return receipt, err
	}
	return receipt, charge()
}

func TestResolve_AWorkflowReconcilesAndGoesOn(t *testing.T) {
	t.Parallel()
	declined := temporal.NewNonRetryableApplicationError("no such card", "CardDeclined", nil, cardDeclined)
	for name, test := range map[string]struct {
		as      guard.Resolution[any]
		charges int32
		want    Receipt
	}{
		"completed":              {guard.Resolution[any]{As: guard.StatusCompleted, Value: Receipt{"found", above53}}, 1, Receipt{"found", above53}},
		"completed by a pointer": {guard.Resolution[any]{As: guard.StatusCompleted, Value: &Receipt{"found", 1}}, 1, Receipt{"found", 1}},
		"released":               {guard.Resolution[any]{As: guard.StatusReleased}, 2, Receipt{"charge-2", 5}},
		"failed":                 {guard.Resolution[any]{As: guard.StatusFailed, Err: declined}, 1, Receipt{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			b := newBench(t, setup{store: redisStore(t), converter: encrypting(t), rules: payment(nil, guard.AtMostOnce())})
			b.activity("Charge", func(ctx context.Context, o Order) (Receipt, error) {
				if receipt := done.charge(o); done.n.Load() > 1 {
					return receipt, nil
				}
				return Receipt{}, errors.New("reset after the request was sent")
			})
			b.activity("Reconcile", func(ctx context.Context, u temporalx.OutcomeUnknown) error {
				r := test.as
				r.Fence = u.Fence
				return b.guard.Resolve(ctx, u.Operation, u.Key, r)
			})
			b.Worker.RegisterWorkflow(chargeAndReconcile)
			b.start()
			run := b.run(chargeAndReconcile, Order{ID: "o-1", Amount: 5})
			if test.as.As == guard.StatusFailed {
				wantError(t, run, "CardDeclined", true)
			} else if got := get[Receipt](t, run); got != test.want {
				t.Errorf("the workflow got %+v, want %+v", got, test.want)
			}
			done.want(t, test.charges)
		})
	}
}

func TestResolve_SaysWhyItDoesNot(t *testing.T) {
	t.Parallel()
	in := guarded(t, setup{rules: payment(nil, guard.AtMostOnce())})
	var none *temporalx.Interceptor
	settle := guard.Resolution[any]{Fence: 1, As: guard.StatusReleased}
	for name, test := range map[string]struct {
		err  error
		want string
		is   error
	}{
		"no interceptor":        {none.Resolve(t.Context(), "Charge", "o-1", settle), "made by New", nil},
		"an unguarded activity": {in.Resolve(t.Context(), "Refund", "o-1", settle), "has no rule", nil},
		"no key":                {in.Resolve(t.Context(), "Charge", "", settle), "", guard.ErrInvalidKey},
		"no record":             {in.Resolve(t.Context(), "Charge", "o-1", settle), "", guard.ErrNotResolved},
		"no fence":              {in.Resolve(t.Context(), "Charge", "o-1", guard.Resolution[any]{As: guard.StatusReleased}), "Fence", nil},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) || test.is != nil && !errors.Is(test.err, test.is) {
			t.Errorf("%s: error %v, want %q %v", name, test.err, test.want, test.is)
		}
	}
}

func TestResolve_WithAStaleFenceChangesNothing(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{store: redisStore(t), rules: payment(nil, guard.AtMostOnce())})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) {
		return done.charge(o), errors.New("reset after the request was sent")
	})
	b.Worker.RegisterWorkflow(chargeAndTell)
	b.start()
	u := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, 10*time.Second)).Unknown
	err := b.guard.Resolve(t.Context(), u.Operation, u.Key, guard.Resolution[any]{Fence: u.Fence - 1, As: guard.StatusReleased})
	if !errors.Is(err, guard.ErrNotResolved) {
		t.Errorf("error %v, want that of a fence that is stale", err)
	}
	if got := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, 10*time.Second)); got.Unknown.Fence != u.Fence {
		t.Errorf("the next workflow got %+v, want the key held as before", got)
	}
	done.want(t, 1)
}
