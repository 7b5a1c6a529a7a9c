package temporalx_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// The charge takes 6 s, the server gives up each attempt after 2 s.
const (
	slowCharge   = 6 * time.Second
	startToClose = 2 * time.Second
)

func impatient(ctx workflow.Context, order Order) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: startToClose, RetryPolicy: retries(0),
	})
	err = workflow.ExecuteActivity(ctx, "Charge", order).Get(ctx, &receipt)
	return receipt, err
}

// runImpatient returns when the slow charge has ended.
func runImpatient(t *testing.T, options ...guard.GuardOption) (b *bench, chargeEnded time.Time) {
	t.Helper()
	var done effects
	b = newBench(t, setup{options: options})
	b.activity("Charge", func(_ context.Context, order Order) (Receipt, error) {
		defer func() { chargeEnded = time.Now() }()
		time.Sleep(slowCharge) // an action that ignores its context
		return done.charge(order), nil
	})
	b.Worker.RegisterWorkflow(impatient)
	b.start()
	got := get[Receipt](t, b.run(impatient, Order{ID: "o-1", Amount: 5}))
	if want := (Receipt{"charge-1", 5}); got != want {
		t.Errorf("the workflow got %+v, want %+v", got, want)
	}
	done.want(t, 1)
	return b, chargeEnded
}

func TestCase_T4_WaitReturnsTheResultOfTheAttemptThatOutlivedItsTimeout(t *testing.T) {
	t.Parallel()
	b, chargeEnded := runImpatient(t, guard.WithLease(3*time.Second))
	seen := b.seen.all()
	// Attempt 1 and the one that gets its result end at the same moment, in either order.
	result := slices.IndexFunc(seen, func(a attempt) bool { return a.number >= 3 && a.err == nil })
	if result < 0 {
		t.Fatalf("attempts %+v, want one of the later ones with the result", seen)
	}
	if late := seen[result].ended.Sub(chargeEnded); late > startToClose {
		t.Errorf("the result was returned %s after it landed, want by the attempt alive or the next", late)
	}
	for i, a := range seen {
		if i == result || a.number == 1 {
			continue
		}
		var app *temporal.ApplicationError
		if !errors.As(a.err, &app) || app.Type() != temporalx.TypeInProgress || app.NextRetryDelay() != 0 {
			t.Errorf("attempt %d: %v, want it to be refused in time, and to come again soon", a.number, a.err)
		}
		if waited := a.ended.Sub(a.started); waited < startToClose/2 || waited > startToClose {
			t.Errorf("attempt %d waited %s of %s", a.number, waited, startToClose)
		}
	}
}

func TestCase_T4_RefuseDelaysTheRetryByTheLeaseLeft(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	b, _ := runImpatient(t, guard.WithLease(lease), guard.OnInFlight(guard.Refuse))
	seen := b.seen.all()
	slices.SortFunc(seen, func(x, y attempt) int { return int(x.number - y.number) })
	refused := 0
	for i, a := range seen {
		var app *temporal.ApplicationError
		if !errors.As(a.err, &app) {
			continue
		}
		refused++
		delay := app.NextRetryDelay()
		if app.Type() != temporalx.TypeInProgress || app.NonRetryable() || !errors.Is(a.err, guard.ErrInProgress) {
			t.Errorf("attempt %d: %v, want a retryable %s", a.number, a.err, temporalx.TypeInProgress)
		}
		// A live owner renews every third, so two thirds are left at the least.
		if delay < lease/2 || delay > lease+lease/5 {
			t.Errorf("attempt %d: next in %s, want the lease left, of %s, and up to a fifth more", a.number, delay, lease)
		}
		if gap := seen[i+1].started.Sub(a.ended); gap < delay-100*time.Millisecond {
			t.Errorf("attempt %d came %s after the one before, which asked for %s", seen[i+1].number, gap, delay)
		}
	}
	if refused == 0 {
		t.Error("no attempt was refused")
	}
}

func TestCase_T11_FiveAttemptsHaveOneKeyWithAllTheIDs(t *testing.T) {
	t.Parallel()
	spy := &spyStore{Store: guard.NewMemoryStore()}
	b := newBench(t, setup{store: spy})
	b.activity("Charge", func(ctx context.Context, _ Order) (Receipt, error) {
		if n := activity.GetInfo(ctx).Attempt; n < 5 {
			return Receipt{}, errors.New("not yet")
		}
		return Receipt{Charge: "fifth"}, nil
	})
	patient := func(ctx workflow.Context) (string, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			ActivityID: "the charge/1", StartToCloseTimeout: 10 * time.Second, RetryPolicy: retries(5),
		})
		return "", workflow.ExecuteActivity(ctx, "Charge", Order{}).Get(ctx, nil)
	}
	b.Worker.RegisterWorkflowWithOptions(patient, workflow.RegisterOptions{Name: "patient"})
	b.start()
	run := b.run("patient")
	get[string](t, run)

	keys := spy.reserved()
	if len(keys) != 5 || len(slices.Compact(slices.Clone(keys))) != 1 {
		t.Fatalf("keys %v, want one in five attempts", keys)
	}
	id := strings.ReplaceAll(run.GetID(), "/", "%2F")
	want := "default/" + id + "/" + run.GetRunID() + "/the%20charge%2F1/Charge/"
	if keys[0].Operation != "Charge" || !strings.HasPrefix(keys[0].Name, want) {
		t.Errorf("key\n%v, want it to begin with\n%v", keys[0], want)
	}
}

func TestDefaultKey_TwoActivitiesThatGetOneIDInARunAreTwoEffects(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	twice := func(ctx workflow.Context) ([]Receipt, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			ActivityID: "charge", StartToCloseTimeout: 10 * time.Second,
		})
		var receipts []Receipt
		for _, id := range []string{"o-1", "o-2"} {
			var r Receipt
			if err := workflow.ExecuteActivity(ctx, "Charge", Order{ID: id}).Get(ctx, &r); err != nil {
				return nil, err
			}
			receipts = append(receipts, r)
		}
		return receipts, nil
	}
	b.Worker.RegisterWorkflowWithOptions(twice, workflow.RegisterOptions{Name: "twice"})
	b.start()
	if got := get[[]Receipt](t, b.run("twice")); len(got) != 2 || got[0].Charge == got[1].Charge {
		t.Errorf("receipts %+v, want two", got)
	}
	done.want(t, 2)
}

func TestCase_T10_TheSameActivityIDInTwoRunsIsTwoDefaultKeysAndOneBusinessKey(t *testing.T) {
	t.Parallel()
	var byRun, byOrder effects
	b := newBench(t, setup{rules: append(chargeByOrder(), temporalx.Rule{Activity: "ChargeRun"})})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return byOrder.charge(o), nil })
	b.activity("ChargeRun", func(_ context.Context, o Order) (Receipt, error) { return byRun.charge(o), nil })
	twice := func(ctx workflow.Context, again bool) error {
		for _, name := range []string{"Charge", "ChargeRun"} {
			ctx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
				ActivityID: name, StartToCloseTimeout: 10 * time.Second,
			})
			if err := workflow.ExecuteActivity(ctx, name, Order{ID: "o-1"}).Get(ctx, nil); err != nil {
				return err
			}
		}
		if again {
			return workflow.NewContinueAsNewError(ctx, "twice", false)
		}
		return nil
	}
	b.Worker.RegisterWorkflowWithOptions(twice, workflow.RegisterOptions{Name: "twice"})
	b.start()
	if err := b.run("twice", true).Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	byRun.want(t, 2)
	byOrder.want(t, 1)
}

func TestCase_T12_ALocalActivityThatTimedOutIsReplayed(t *testing.T) {
	t.Parallel()
	var done effects
	spy := &spyStore{Store: guard.NewMemoryStore()}
	b := newBench(t, setup{store: spy})
	charge := func(_ context.Context, o Order) (Receipt, error) {
		time.Sleep(1500 * time.Millisecond) // longer than the attempt may take
		return done.charge(o), nil
	}
	b.activity("Charge", charge)
	local := func(ctx workflow.Context) (receipt Receipt, err error) {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
			StartToCloseTimeout: time.Second, ScheduleToCloseTimeout: time.Minute, RetryPolicy: retries(0),
		})
		err = workflow.ExecuteLocalActivity(ctx, "Charge", Order{ID: "o-1", Amount: 7}).Get(ctx, &receipt)
		return receipt, err
	}
	b.Worker.RegisterWorkflowWithOptions(local, workflow.RegisterOptions{Name: "local"})
	b.start()
	if got, want := get[Receipt](t, b.run("local")), (Receipt{"charge-1", 7}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	done.want(t, 1)
	keys := slices.Compact(spy.reserved())
	if len(keys) != 1 || !strings.HasSuffix(keys[0].Name, "/Charge/local-call") {
		t.Errorf("keys %v, want one, of a local activity", keys)
	}
}

// TestLocalActivity_ARetryByATimerHasTheKeyOfTheFirstAttempt: a pause that is longer than
// a workflow task makes the SDK schedule the next attempt anew, with another activity id.
func TestLocalActivity_ARetryByATimerHasTheKeyOfTheFirstAttempt(t *testing.T) {
	t.Parallel()
	var done effects
	store := guard.NewMemoryStore()
	b := newBench(t, setup{store: store, rules: []temporalx.Rule{{
		Activity: "Charge", Options: []guard.OperationOption{guard.ForPayments(), guard.AtMostOnce()},
	}}})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) {
		done.charge(o)
		return Receipt{}, errors.New("no word from the provider")
	})
	local := func(ctx workflow.Context) error {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
			ScheduleToCloseTimeout: time.Minute,
			RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 3 * time.Second, BackoffCoefficient: 1, MaximumAttempts: 3},
		})
		return workflow.ExecuteLocalActivity(ctx, "Charge", Order{ID: "o-1"}).Get(ctx, nil)
	}
	b.Worker.RegisterWorkflowWithOptions(local, workflow.RegisterOptions{Name: "local"})
	b.start()
	run, err := b.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: b.id, TaskQueue: b.queue, WorkflowTaskTimeout: 2 * time.Second,
	}, "local")
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, run, temporalx.TypeOutcomeUnknown, true)
	done.want(t, 1)
}

func TestCase_T14_APanicReachesTheSDKAndFreesTheKey(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{})
	b.activity("Charge", func(ctx context.Context, o Order) (Receipt, error) {
		if activity.GetInfo(ctx).Attempt == 1 {
			panic("out of paper")
		}
		return done.charge(o), nil
	})
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	if got := get[Receipt](t, b.run(chargeOnce, Order{ID: "o-1"})); got.Charge != "charge-1" {
		t.Errorf("got %+v", got)
	}
	if seen := b.seen.all(); len(seen) != 1 || seen[0].number != 2 {
		t.Errorf("attempts that returned: %+v, want the second alone, at once", seen)
	}
}
