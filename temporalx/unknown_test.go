package temporalx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// payment guards "Charge" by a business key as a payment, with a hook if one is given.
func payment(hook temporalx.Recovery, options ...guard.OperationOption) []temporalx.Rule {
	rules := chargeByOrder(append([]guard.OperationOption{guard.ForPayments(), guard.WithLease(time.Second)}, options...)...)
	rules[0].Recovery = hook
	return rules
}

// chargeAndMissTheDeadline charges, and hears of it only when its attempt is over.
func (e *effects) chargeAndMissTheDeadline(ctx context.Context, o Order) (Receipt, error) {
	e.charge(o)
	<-ctx.Done()
	return Receipt{}, ctx.Err()
}

// ending is how an activity ended for its workflow.
type ending struct {
	Receipt      Receipt
	Type         string
	Message      string
	NonRetryable bool
	Delay        time.Duration
	Category     temporal.ApplicationErrorCategory
	Cause        string
	Unknown      temporalx.OutcomeUnknown
	Decline      decline
}

// chargeAndTell is a workflow that looks at the error of its activity as a workflow
// does that branches.
func chargeAndTell(ctx workflow.Context, o Order, startToClose time.Duration) (end ending, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: startToClose, RetryPolicy: retries(5),
	})
	err = workflow.ExecuteActivity(ctx, "Charge", o).Get(ctx, &end.Receipt)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return end, err
	}
	end.Type, end.Message, end.NonRetryable = app.Type(), app.Message(), app.NonRetryable()
	end.Delay, end.Category = app.NextRetryDelay(), app.Category()
	if cause := app.Unwrap(); cause != nil {
		end.Cause = cause.Error()
	}
	switch {
	case app.Type() == temporalx.TypeOutcomeUnknown:
		err = app.Details(&end.Unknown)
	case app.HasDetails():
		err = app.Details(&end.Decline)
	default:
		err = nil
	}
	return end, err
}

const shortAttempt = time.Second

func TestOutcomeUnknown_AnAttemptThatTimesOutAfterTheChargeIsForTheWorkflowToReconcile(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{store: redisStore(t), rules: payment(nil, guard.AtMostOnce())})
	b.activity("Charge", done.chargeAndMissTheDeadline)
	b.Worker.RegisterWorkflow(chargeAndTell)
	b.start()
	began := time.Now()
	got := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, shortAttempt))
	if got.Type != temporalx.TypeOutcomeUnknown || !got.NonRetryable {
		t.Errorf("the workflow got %+v, want a final %s", got, temporalx.TypeOutcomeUnknown)
	}
	if u := got.Unknown; u.Operation != "Charge" || u.Key != "o-1" || u.Fence == 0 || u.Owner == "" || u.Since.Before(began.Add(-time.Minute)) {
		t.Errorf("details %+v, want what Resolve needs", u)
	}
	done.want(t, 1)
	b.wantUnknown(1)
}

// wantUnknown wants so many attempts that ended with an unknown outcome.
func (b *bench) wantUnknown(n int) {
	b.t.Helper()
	got := 0
	for _, a := range b.seen.all() {
		if errors.Is(a.err, guard.ErrOutcomeUnknown) {
			got++
		}
	}
	if got != n {
		b.t.Errorf("%d attempts ended with an unknown outcome, want %d", got, n)
	}
}

func TestOutcomeUnknown_AnActivityThatPanicsAfterTheChargeIsNotRunAgain(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{store: redisStore(t), rules: payment(nil, guard.AtMostOnce())})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) {
		done.charge(o)
		panic("out of paper")
	})
	b.Worker.RegisterWorkflow(chargeAndTell)
	b.start()
	if got := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, 10*time.Second)); got.Type != temporalx.TypeOutcomeUnknown {
		t.Errorf("the workflow got %+v, want %s", got, temporalx.TypeOutcomeUnknown)
	}
	done.want(t, 1)
	b.wantUnknown(1)
}

func TestRecovery_AnAttemptThatTimesOutAfterTheChargeIsRecovered(t *testing.T) {
	t.Parallel()
	var done effects
	lost := make(chan guard.Evidence, 10)
	ask := func(ctx context.Context, e guard.Evidence) (Receipt, guard.Finding, error) {
		if info := activity.GetInfo(ctx); info.ActivityType.Name != "Charge" || info.Attempt < 2 {
			t.Errorf("the hook runs in %s, attempt %d", info.ActivityType.Name, info.Attempt)
		}
		if fence, ok := guard.FenceFromContext(ctx); !ok || fence != e.Fence || fence <= e.Dispatch.Fence {
			t.Errorf("fence %d, evidence %+v", fence, e)
		}
		lost <- e
		return Receipt{Charge: "found", Amount: above53}, guard.Found, nil
	}
	b := newBench(t, setup{store: redisStore(t), rules: payment(temporalx.RecoverWith(ask), guard.WithSettleTime(200*time.Millisecond))})
	b.activity("Charge", done.chargeAndMissTheDeadline)
	b.Worker.RegisterWorkflow(chargeAndTell)
	b.start()
	for _, workflow := range []string{"the one that charged", "a later one"} {
		if got := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, shortAttempt)); got.Receipt != (Receipt{"found", above53}) {
			t.Errorf("%s got %+v, want what the hook found", workflow, got)
		}
	}
	done.want(t, 1)
	if e := <-lost; e.Key.Name != "o-1" || len(lost) > 0 {
		t.Errorf("evidence %+v, and asked %d times more", e, len(lost))
	}
}

func TestRecovery_NotFoundRunsTheActivity(t *testing.T) {
	t.Parallel()
	var done effects
	ask := func(context.Context, guard.Evidence) (Receipt, guard.Finding, error) {
		return Receipt{}, guard.NotFound, nil
	}
	b := newBench(t, setup{store: redisStore(t), rules: payment(temporalx.RecoverWith(ask), guard.WithSettleTime(0))})
	b.activity("Charge", func(ctx context.Context, o Order) (Receipt, error) {
		if activity.GetInfo(ctx).Attempt == 1 {
			return Receipt{}, errors.New("reset before the provider had it")
		}
		return done.charge(o), nil
	})
	b.Worker.RegisterWorkflow(chargeAndTell)
	b.start()
	if got := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, 10*time.Second)); got.Receipt.Charge != "charge-1" {
		t.Errorf("got %+v, want the charge", got)
	}
	done.want(t, 1)
}

func TestRecovery_ThatCannotTellIsFinal(t *testing.T) {
	t.Parallel()
	var done effects
	ask := func(context.Context, guard.Evidence) (Receipt, guard.Finding, error) {
		return Receipt{}, guard.CannotTell, errors.New("the provider is closed")
	}
	b := newBench(t, setup{store: redisStore(t), rules: payment(temporalx.RecoverWith(ask), guard.WithSettleTime(0))})
	b.activity("Charge", done.chargeAndMissTheDeadline)
	b.Worker.RegisterWorkflow(chargeAndTell)
	b.start()
	got := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, shortAttempt))
	if got.Type != temporalx.TypeOutcomeUnknown || !got.NonRetryable || got.Unknown.Key != "o-1" {
		t.Errorf("the workflow got %+v, want a final %s", got, temporalx.TypeOutcomeUnknown)
	}
	done.want(t, 1)
}

func TestRecovery_ThatIsTooEarlyIsRetriedWhenItMayBeAsked(t *testing.T) {
	t.Parallel()
	const settle = 1500 * time.Millisecond
	var done effects
	ask := func(context.Context, guard.Evidence) (Receipt, guard.Finding, error) {
		return Receipt{Charge: "found"}, guard.Found, nil
	}
	b := newBench(t, setup{store: redisStore(t), rules: payment(temporalx.RecoverWith(ask),
		guard.WithSettleTime(settle), guard.OnInFlight(guard.Refuse))})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) {
		return done.charge(o), errors.New("reset after the request was sent")
	})
	b.Worker.RegisterWorkflow(chargeAndTell)
	b.start()
	if got := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, 10*time.Second)); got.Receipt.Charge != "found" {
		t.Errorf("got %+v, want what the hook found", got)
	}
	done.want(t, 1)
	seen := b.seen.all()
	if len(seen) < 3 {
		t.Fatalf("attempts %+v, want three", seen)
	}
	var app *temporal.ApplicationError
	if !errors.As(seen[1].err, &app) || app.Type() != temporalx.TypeOutcomeUnknown || app.NonRetryable() ||
		app.NextRetryDelay() <= settle/2 || app.NextRetryDelay() > settle {
		t.Errorf("the second attempt ended with %v, want to be asked again in %s", seen[1].err, settle)
	}
}

func TestResultPending_UnderAtMostOnceIsHeldWhenALaterAttemptComes(t *testing.T) {
	t.Parallel()
	found := temporalx.RecoverWith(func(context.Context, guard.Evidence) (Receipt, guard.Finding, error) {
		return Receipt{Charge: "found"}, guard.Found, nil
	})
	for name, test := range map[string]struct {
		hook temporalx.Recovery
		want func(ending) bool
	}{
		"alone":     {nil, func(e ending) bool { return e.Type == temporalx.TypeOutcomeUnknown && e.NonRetryable }},
		"with hook": {found, func(e ending) bool { return e.Receipt.Charge == "found" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			b := newBench(t, setup{store: redisStore(t), rules: payment(test.hook, guard.AtMostOnce())})
			b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) {
				return done.charge(o), activity.ErrResultPending
			})
			b.Worker.RegisterWorkflow(chargeAndTell)
			b.start()
			// The completion never comes: the server gives up the attempt.
			got := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, 3*time.Second))
			if !test.want(got) {
				t.Errorf("the workflow got %+v", got)
			}
			done.want(t, 1)
			if first := b.seen.all()[0].err; first != activity.ErrResultPending { //nolint:errorlint // the SDK compares it like this
				t.Errorf("the first attempt ended with %v, want activity.ErrResultPending itself", first)
			}
		})
	}
}

func TestRecovery_OfAnActivityThatReturnsOnlyAnErrorFindsNothingToReturn(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]temporalx.Recovery{
		"any": temporalx.RecoverWith(func(context.Context, guard.Evidence) (any, guard.Finding, error) {
			return nil, guard.Found, nil
		}),
		"a pointer": temporalx.RecoverWith(func(context.Context, guard.Evidence) (*Receipt, guard.Finding, error) {
			return nil, guard.Found, nil
		}),
	} {
		var suite testsuite.WorkflowTestSuite
		seen := &attempts{}
		env := testEnv(&suite, seen, guarded(t, setup{rules: payment(hook, guard.WithSettleTime(0))}))
		register(env, "Charge", func(context.Context, Order) error { return errors.New("connection reset") })
		for range 3 { // the run, the recovery, a replay
			_, _ = env.ExecuteActivity("Charge", Order{ID: "o-1"})
		}
		for i, a := range seen.all()[1:] {
			if a.err != nil || a.value != nil {
				t.Errorf("%s, call %d: %v, %v, want nothing", name, i+2, a.value, a.err)
			}
		}
	}
}

func TestMarkDispatch_AnActivityThatHasSentNothingIsFreeAndOneThatHasIsHeld(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	var fences []int64
	seen := &attempts{}
	env := testEnv(&suite, seen, guarded(t, setup{rules: payment(nil, guard.AtMostOnce(), guard.MarkDispatch())}))
	register(env, "Charge", func(ctx context.Context, _ Order) error {
		fence, ok := guard.FenceFromContext(ctx)
		if !ok {
			t.Error("no fence in the activity's context")
		}
		fences = append(fences, fence)
		if len(fences) > 1 {
			if err := guard.Dispatched(ctx); err != nil {
				t.Error(err)
			}
		}
		return errors.New("the connection is gone")
	})
	for range 3 {
		_, _ = env.ExecuteActivity("Charge", Order{ID: "o-1"})
	}
	if len(fences) != 2 || fences[1] <= fences[0] {
		t.Errorf("fences %v, want two runs and a larger one in the second", fences)
	}
	if err := seen.all()[2].err; !errors.Is(err, guard.ErrOutcomeUnknown) {
		t.Errorf("the third call: %v, want an unknown outcome", err)
	}
}
