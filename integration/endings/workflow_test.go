package endings

import (
	"errors"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Names that workers register.
const (
	chargeActivity = "Charge"
	chargeWorkflow = "charging"
)

// Order is what the activity is asked to charge. There is one in each scenario.
type Order struct{ ID string }

func orderID(o Order) (string, error) { return o.ID, nil }

// plan is what a workflow does: it charges, tells the board what it got, and goes on.
type plan struct {
	ID    string // of the scenario
	Queue string // of the activity
	Kind  string // of the activity: normal when empty
	Then  string // what comes after the charge: the end when empty

	StartToClose    time.Duration // default 30 s
	ScheduleToClose time.Duration
	Heartbeat       time.Duration
	Pause           time.Duration // before the next attempt, default 100 ms
	AwaitsCancel    bool          // of the activity, in place of its request
	Later           bool          // not the first run
	Again           bool          // not the first call
}

// Kinds of activities.
const (
	local   = "local"
	session = "session"
	ofChild = "of a child workflow"
)

// What comes after the charge.
const (
	chargesAgain = "charges again, also when it was canceled"
	fails        = "fails in its first run"
	recurs       = "is run again and then stays"
	continues    = "continues as new"
)

// board is where workflows tell what they got.
type board struct {
	mu  sync.Mutex
	got map[string][]string
}

func (b *board) of(id string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.got[id]...)
}

func (b *board) tell(ctx workflow.Context, id, value string, err error) {
	if workflow.IsReplaying(ctx) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got[id] = append(b.got[id], word(value, err))
}

// word is what a workflow got, in the words of the table.
func word(value string, err error) string {
	var (
		app      *temporal.ApplicationError
		timeout  *temporal.TimeoutError
		panicked *temporal.PanicError
	)
	switch {
	case err == nil:
		return "`" + value + "`"
	case temporal.IsCanceledError(err):
		return "a cancel"
	case errors.As(err, &timeout):
		if timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE {
			return "a schedule-to-close timeout"
		}
		return "a timeout: " + timeout.TimeoutType().String()
	case errors.As(err, &panicked):
		return "a panic"
	case errors.As(err, &app):
		return "`" + app.Type() + "`"
	}
	return err.Error()
}

// charging is the workflow of all scenarios.
func (b *board) charging(ctx workflow.Context, p plan) error {
	if p.Kind == ofChild {
		p.Kind = ""
		return workflow.ExecuteChildWorkflow(ctx, chargeWorkflow, p).Get(ctx, nil)
	}
	if p.Kind == session {
		inside, err := workflow.CreateSession(withOptions(ctx, p), &workflow.SessionOptions{
			CreationTimeout: 20 * time.Second, ExecutionTimeout: time.Minute,
		})
		if err != nil {
			return err
		}
		defer workflow.CompleteSession(inside)
		ctx = inside
	}
	b.charge(ctx, p)
	again, info := p, workflow.GetInfo(ctx)
	again.Later = true
	switch {
	case p.Then == chargesAgain:
		alive, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		p.Again = true
		b.charge(alive, p)
	case p.Then == fails && info.Attempt == 1:
		return errors.New("failed after the charge")
	case p.Then == recurs && info.ContinuedExecutionRunID != "":
		ctx.Done().Receive(ctx, nil)
	case p.Then == continues && !p.Later:
		return workflow.NewContinueAsNewError(ctx, chargeWorkflow, again)
	}
	return nil
}

// charge calls the activity and tells what came of it.
func (b *board) charge(ctx workflow.Context, p plan) {
	ctx = withOptions(ctx, p)
	order := Order{ID: p.ID}
	var future workflow.Future
	if p.Kind == local {
		future = workflow.ExecuteLocalActivity(ctx, chargeActivity, order)
	} else {
		future = workflow.ExecuteActivity(ctx, chargeActivity, order)
	}
	var value string
	err := future.Get(ctx, &value)
	b.tell(ctx, p.ID, value, err)
}

func withOptions(ctx workflow.Context, p plan) workflow.Context {
	id := "charge"
	if p.Again {
		id = "charge again" // the first one may be open still
	}
	retries := &temporal.RetryPolicy{InitialInterval: max(p.Pause, 100*time.Millisecond), BackoffCoefficient: 1}
	if p.StartToClose == 0 {
		p.StartToClose = 30 * time.Second
	}
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: p.StartToClose, RetryPolicy: retries,
	})
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: p.Queue, ActivityID: id,
		StartToCloseTimeout: p.StartToClose, ScheduleToCloseTimeout: p.ScheduleToClose, HeartbeatTimeout: p.Heartbeat,
		WaitForCancellation: p.AwaitsCancel, RetryPolicy: retries,
	})
}
