package temporalx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// approval is a bench whose activity "Charge" leaves its result to a later completion.
type approval struct {
	*bench
	done   effects
	tokens chan []byte
	other  *temporalx.Interceptor // of the process that completes
}

func newApproval(t *testing.T, options ...guard.OperationOption) *approval {
	t.Helper()
	return newApprovalOf(t, setup{store: redisStore(t), rules: chargeByOrder(options...)})
}

func newApprovalOf(t *testing.T, s setup) *approval {
	t.Helper()
	a := &approval{bench: newBench(t, s), tokens: make(chan []byte, 10), other: guarded(t, s)}
	a.activity("Charge", func(ctx context.Context, o Order) (Receipt, error) {
		token, err := temporalx.CompletionToken(ctx)
		if err != nil {
			return Receipt{}, err
		}
		a.done.charge(o)
		a.tokens <- token
		return Receipt{}, activity.ErrResultPending
	})
	a.Worker.RegisterWorkflow(approve)
	a.Worker.RegisterWorkflow(chargeOnceQuickly)
	a.start()
	return a
}

const noHeartbeat = time.Duration(0)

// approve calls "Charge" and is tried again without a limit.
func approve(ctx workflow.Context, order Order, startToClose, heartbeat time.Duration) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ActivityID: "approval", StartToCloseTimeout: startToClose, HeartbeatTimeout: heartbeat, RetryPolicy: retries(0),
		WaitForCancellation: true,
	})
	err = workflow.ExecuteActivity(ctx, "Charge", order).Get(ctx, &receipt)
	return receipt, err
}

func (a *approval) token() []byte {
	a.t.Helper()
	select {
	case token := <-a.tokens:
		return token
	case <-time.After(30 * time.Second):
		a.t.Fatal("the activity did not run")
		return nil
	}
}

func (a *approval) wantReceipt(run client.WorkflowRun, want Receipt) {
	a.t.Helper()
	if got := get[Receipt](a.t, run); got != want {
		a.t.Errorf("the workflow got %+v, want %+v", got, want)
	}
}

var approved = Receipt{Charge: "approved", Amount: 1<<53 + 1}

func TestCompleteActivity_EndsTheActivityAndStoresTheResult(t *testing.T) {
	t.Parallel()
	a := newApproval(t)
	run := a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	token := a.token()
	waits := a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	if err := a.other.CompleteActivity(t.Context(), a.client, token, approved, nil); err != nil {
		t.Fatal(err)
	}
	a.wantReceipt(run, approved)
	a.wantReceipt(waits, approved)
	a.wantReceipt(a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat), approved)
	a.done.want(t, 1)
}

func TestCompleteActivityByID_EndsTheActivityAndStoresTheResult(t *testing.T) {
	t.Parallel()
	a := newApproval(t)
	run := a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	a.token()
	of := temporalx.PendingActivity{
		Namespace: "default", WorkflowID: run.GetID(), ActivityID: "approval", Type: "Charge", Key: "o-1",
	}
	complete := func(c client.Client, as Receipt) error {
		return a.other.CompleteActivityByID(t.Context(), c, of, &as, nil)
	}
	// The activity hands out its token before it has left the key.
	eventually(t, "the key is left", func() bool { return !errors.Is(complete(unreachable{a.client}, approved), guard.ErrStale) })
	if err := complete(a.client, Receipt{Charge: "another"}); !errors.Is(err, guard.ErrStale) {
		t.Errorf("got %v, want that the first result counts", err)
	}
	if err := complete(a.client, approved); err != nil { // the half that is left
		t.Error(err)
	}
	a.wantReceipt(run, approved)
	a.wantReceipt(a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat), approved)
	var over *serviceerror.NotFound
	if err := complete(a.client, approved); !errors.As(err, &over) {
		t.Errorf("got %v, want that the activity is over", err)
	}
	a.done.want(t, 1)
}

// Two who approve click differently.
func TestCompleteActivity_TheFirstOneCounts(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]converter.DataConverter{
		"plain": converter.GetDefaultDataConverter(), "encrypted": encrypting(t), "without raw values": opaque{encrypting(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApprovalOf(t, setup{store: redisStore(t), rules: chargeByOrder(), converter: data})
			run := a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
			token := a.token()
			if err := a.other.CompleteActivity(t.Context(), unreachable{a.client}, token, approved, nil); !errors.Is(err, errUnreachable) {
				t.Fatal(err)
			}
			if err := a.other.CompleteActivity(t.Context(), a.client, token, Receipt{Charge: "another"}, nil); !errors.Is(err, guard.ErrStale) {
				t.Errorf("another result: %v, want ErrStale", err)
			}
			if err := a.other.CompleteActivity(t.Context(), a.client, token, nil, errors.New("declined")); !errors.Is(err, guard.ErrStale) {
				t.Errorf("an error: %v, want ErrStale", err)
			}
			err := a.other.CompleteActivity(t.Context(), a.client, token, approved, nil)
			if name == "without raw values" { // its bytes are others each time: nobody can tell
				if !errors.Is(err, guard.ErrStale) {
					t.Errorf("got %v, want ErrStale", err)
				}
				return
			}
			if err != nil {
				t.Error(err)
			}
			a.wantReceipt(run, approved)
			a.wantReceipt(a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat), approved)
		})
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// unreachable is a client whose half of the completion fails.
type unreachable struct{ client.Client }

var errUnreachable = errors.New("the server is not there")

func (unreachable) CompleteActivity(context.Context, []byte, any, error) error { return errUnreachable }

func (unreachable) CompleteActivityByID(context.Context, string, string, string, string, any, error) error {
	return errUnreachable
}

func TestCompleteActivity_TheRecordComesFirstSoThatTheNextAttemptHasIt(t *testing.T) {
	t.Parallel()
	a := newApproval(t)
	run := a.run(approve, Order{ID: "o-1"}, 3*time.Second, noHeartbeat)
	err := a.other.CompleteActivity(t.Context(), unreachable{a.client}, a.token(), approved, nil)
	if !errors.Is(err, errUnreachable) {
		t.Fatalf("got %v, want the client's error", err)
	}
	a.wantReceipt(run, approved)
	if n := len(a.seen.all()); n != 2 {
		t.Errorf("%d attempts, want a second one that replays", n)
	}
	a.done.want(t, 1)
}

func TestCompleteActivity_MayBeTriedAgain(t *testing.T) {
	t.Parallel()
	a := newApproval(t)
	run := a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	token := a.token()
	if err := a.other.CompleteActivity(t.Context(), unreachable{a.client}, token, approved, nil); err == nil {
		t.Error("no error")
	}
	if err := a.other.CompleteActivity(t.Context(), a.client, token, approved, nil); err != nil {
		t.Error(err)
	}
	a.wantReceipt(run, approved)
	a.done.want(t, 1)
}

func TestCompleteActivity_WithAnErrorLeavesTheKeyToTheNextAttempt(t *testing.T) {
	t.Parallel()
	a := newApproval(t)
	run := a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	if err := a.other.CompleteActivity(t.Context(), a.client, a.token(), nil, errors.New("try again")); err != nil {
		t.Error(err)
	}
	if err := a.other.CompleteActivity(t.Context(), a.client, a.token(), approved, nil); err != nil {
		t.Error(err)
	}
	a.wantReceipt(run, approved)
	a.done.want(t, 2)
}

func TestCompleteActivity_UnderAtMostOnceAnErrorIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	a := newApproval(t, guard.AtMostOnce(), guard.OnStorageError(guard.FailClosed))
	run := a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	if err := a.other.CompleteActivity(t.Context(), a.client, a.token(), nil, errors.New("timeout")); err != nil {
		t.Error(err)
	}
	wantError(t, run, temporalx.TypeOutcomeUnknown, true)
	a.done.want(t, 1)
}

// Nobody heartbeats for the activity: the server gives the first attempt up long before its
// deadline, until which the key is reserved.
func TestResultPending_ALaterAttemptTakesOverWhatAnEarlierOneHasLeft(t *testing.T) {
	t.Parallel()
	a := newApproval(t)
	run := a.run(approve, Order{ID: "o-1"}, 5*time.Minute, time.Second)
	first, began := a.token(), time.Now()
	second := a.token()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the second attempt ran after %s, want it at once after the heartbeat timeout", took)
	}
	err := a.other.CompleteActivity(t.Context(), a.client, first, Receipt{Charge: "late"}, nil)
	if !errors.Is(err, guard.ErrStale) {
		t.Errorf("the first attempt's completion: %v, want ErrStale", err)
	}
	if err := a.other.CompleteActivity(t.Context(), a.client, second, approved, nil); err != nil {
		t.Error(err)
	}
	a.wantReceipt(run, approved)
	a.done.want(t, 2)
}

// The lease of the tests is shorter than the time that the completion takes.
func TestResultPending_TheKeyStaysReservedUntilTheDeadlineOfTheAttempt(t *testing.T) {
	t.Parallel()
	a := newApproval(t, guard.WithLease(500*time.Millisecond), guard.OnInFlight(guard.Refuse))
	run := a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	token := a.token()
	time.Sleep(1500 * time.Millisecond)
	refused := a.run(chargeOnceQuickly, Order{ID: "o-1"})
	wantError(t, refused, temporalx.TypeInProgress, false)
	if err := a.other.CompleteActivity(t.Context(), a.client, token, approved, nil); err != nil {
		t.Error(err)
	}
	a.wantReceipt(run, approved)
	a.done.want(t, 1)
}

func chargeOnceQuickly(ctx workflow.Context, order Order) (receipt Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	err = workflow.ExecuteActivity(ctx, "Charge", order).Get(ctx, &receipt)
	return receipt, err
}

func TestCompleteActivity_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	a := newApproval(t)
	run := a.run(approve, Order{ID: "o-1"}, time.Minute, noHeartbeat)
	token := a.token()
	none := guarded(t, setup{rules: []temporalx.Rule{{Activity: "Refund"}}})
	for name, err := range map[string]error{
		"a bare task token": a.other.CompleteActivity(t.Context(), a.client, []byte("task"), approved, nil),
		"no client":         a.other.CompleteActivity(t.Context(), nil, token, approved, nil),
		"no rule":           none.CompleteActivity(t.Context(), a.client, token, approved, nil),
		"later still":       a.other.CompleteActivity(t.Context(), a.client, token, nil, activity.ErrResultPending),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := temporalx.CompletionToken(t.Context()); err == nil {
		t.Error("a token outside of an activity")
	}
	if err := a.other.CompleteActivity(t.Context(), a.client, token, approved, nil); err != nil {
		t.Error(err)
	}
	a.wantReceipt(run, approved)
}
