package temporalx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/temporalx"
)

// The keys of the table, also as types of activities.
const (
	byDefaultKey   = "DefaultKey"
	byWorkflowKey  = "WorkflowKey"
	byKeyFrom      = "KeyFrom"
	byWithKey      = "WithKey"
	byInheritedKey = "WithInheritedKey"
)

// The events of the table.
const (
	activityRetry = "retry of the activity"
	reset         = "reset"
	workflowRetry = "retry of the workflow"
	cron          = "cron"
	continued     = "continue as new"
	child         = "child workflow"
	another       = "another workflow"
)

var survivalEvents = []string{activityRetry, reset, workflowRetry, cron, continued, child, another}

// survival is how many effects two calls of one charge have, by key and event.
var survival = []struct {
	key     string
	effects map[string]int
}{
	{byDefaultKey, map[string]int{activityRetry: 1, reset: 2, workflowRetry: 2, cron: 2, continued: 2, child: 2, another: 2}},
	{byWorkflowKey, map[string]int{activityRetry: 1, reset: 1, workflowRetry: 1, cron: 1, continued: 1, child: 2, another: 2}},
	{byKeyFrom, map[string]int{activityRetry: 1, reset: 1, workflowRetry: 1, cron: 1, continued: 1, child: 1, another: 1}},
	{byWithKey, map[string]int{activityRetry: 1, reset: 1, workflowRetry: 1, cron: 1, continued: 2, child: 2, another: 1}},
	{byInheritedKey, map[string]int{activityRetry: 1, reset: 1, workflowRetry: 1, cron: 1, continued: 1, child: 1, another: 1}},
}

// renderedSurvival is the table in Markdown.
func renderedSurvival() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| key | %s |\n|---|%s\n", strings.Join(survivalEvents, " | "), strings.Repeat("---|", len(survivalEvents)))
	for _, row := range survival {
		fmt.Fprintf(&b, "| `%s` |", row.key)
		for _, event := range survivalEvents {
			fmt.Fprintf(&b, " %d |", row.effects[event])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestSurvival_IsTheTableOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/temporal.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := renderedSurvival(); !strings.Contains(string(doc), want) {
		t.Errorf("docs/temporal.md does not have the table:\n%s", want)
	}
}

// life is a charge by a key, and what happens to its workflow.
type life struct {
	Key   string
	Event string
	Later bool // a run or child that the first workflow has made
}

func (l life) order() string { return l.Key + "/" + l.Event }

// lives is a workflow with a life. Only the first one sets a key.
func lives(ctx workflow.Context, l life) error {
	ctx = withOptions(ctx)
	switch {
	case l.Later:
	case l.Key == byWithKey:
		ctx = temporalx.WithKey(ctx, l.order())
	case l.Key == byInheritedKey:
		ctx = temporalx.WithInheritedKey(ctx, l.order())
	}
	charging := withID(ctx, "charge")
	if l.Event == activityRetry {
		charging = workflow.WithStartToCloseTimeout(charging, time.Second)
	}
	if err := workflow.ExecuteActivity(charging, l.Key, Order{ID: l.order()}).Get(ctx, nil); err != nil {
		return err
	}
	if err := workflow.ExecuteActivity(ctx, "Charged", l).Get(ctx, nil); err != nil {
		return err
	}
	next := l
	next.Later = true
	switch {
	case l.Event == workflowRetry && workflow.GetInfo(ctx).Attempt == 1:
		return errors.New("failed after the charge")
	case l.Event == continued && !l.Later:
		return workflow.NewContinueAsNewError(ctx, lives, next)
	case l.Event == child && !l.Later:
		return workflow.ExecuteChildWorkflow(ctx, lives, next).Get(ctx, nil)
	}
	return nil
}

// world counts the effects of lives, and is told of every workflow that has charged.
type world struct {
	mu      sync.Mutex
	effects map[string]int
	charged map[string]chan struct{}
}

func (w *world) charge(ctx context.Context, o Order) (Receipt, error) {
	w.mu.Lock()
	w.effects[o.ID]++
	receipt := Receipt{Charge: fmt.Sprintf("charge-%d", w.effects[o.ID])}
	w.mu.Unlock()
	if strings.HasSuffix(o.ID, activityRetry) && activity.GetInfo(ctx).Attempt == 1 {
		<-ctx.Done() // the server does not hear of it, the store does
	}
	return receipt, nil
}

func (w *world) told(l life) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.charged[l.order()] == nil {
		w.charged[l.order()] = make(chan struct{}, 100)
	}
	return w.charged[l.order()]
}

func (w *world) of(l life) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.effects[l.order()]
}

// newWorld is a worker for lives.
func newWorld(t *testing.T) (*bench, *world) {
	t.Helper()
	w := &world{effects: map[string]int{}, charged: map[string]chan struct{}{}}
	b := newBench(t, setup{rules: []temporalx.Rule{
		{Activity: byDefaultKey, Key: temporalx.DefaultKey()},
		{Activity: byWorkflowKey, Key: temporalx.WorkflowKey()},
		{Activity: byKeyFrom, Key: temporalx.KeyFrom(orderID)},
		{Activity: byWithKey},
		{Activity: byInheritedKey},
	}})
	for _, row := range survival {
		b.activity(row.key, w.charge)
	}
	b.activity("Charged", func(_ context.Context, l life) error { w.told(l) <- struct{}{}; return nil })
	b.Worker.RegisterWorkflow(lives)
	b.start()
	return b, w
}

// live runs a life until its charge was called twice.
func (b *bench) live(t *testing.T, w *world, l life) {
	t.Helper()
	options := client.StartWorkflowOptions{ID: b.id + "/" + uuid.NewString(), TaskQueue: b.queue}
	calls := 2
	switch l.Event {
	case workflowRetry:
		options.RetryPolicy = retries(2)
	case cron:
		options.CronSchedule = "@every 1s"
	case activityRetry:
		calls = 1
	}
	run, err := b.client.ExecuteWorkflow(t.Context(), options, lives, l)
	if err != nil {
		t.Error(err)
		return
	}
	switch l.Event {
	case reset:
		b.reset(t, run)
	case another:
		options.ID += "/another"
		if _, err := b.client.ExecuteWorkflow(t.Context(), options, lives, l); err != nil {
			t.Error(err)
		}
	}
	for range calls {
		select {
		case <-w.told(l):
		case <-time.After(20 * time.Second):
			t.Errorf("%+v: no call", l)
		}
	}
	if l.Event == cron {
		if err := b.client.TerminateWorkflow(t.Context(), options.ID, "", "seen enough"); err != nil {
			t.Error(err)
		}
	}
}

// reset takes a workflow back to before its charge when it is over, and waits for the new
// run's end.
func (b *bench) reset(t *testing.T, run client.WorkflowRun) {
	t.Helper()
	if err := run.Get(t.Context(), nil); err != nil {
		t.Error(err)
	}
	var first int64 // workflow task
	for _, event := range b.historyOf(run).GetEvents() {
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			first = event.GetEventId()
			break
		}
	}
	again, err := b.client.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: "default", Reason: "the charge is to be made again, or is it", WorkflowTaskFinishEventId: first,
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
		RequestId:         uuid.NewString(),
	})
	if err != nil {
		t.Error(err)
		return
	}
	if err := b.client.GetWorkflow(t.Context(), run.GetID(), again.GetRunId()).Get(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestSurvival_IsWhatHappensOnTheServer(t *testing.T) {
	t.Parallel()
	b, w := newWorld(t)
	var all sync.WaitGroup
	for _, row := range survival {
		for _, event := range survivalEvents {
			l := life{Key: row.key, Event: event}
			all.Go(func() {
				b.live(t, w, l)
				if got, want := w.of(l), row.effects[event]; got != want {
					t.Errorf("%s, %s: %d effects, want %d", row.key, event, got, want)
				}
			})
		}
	}
	all.Wait()
}

func TestCase_T18_AResetToBeforeAChargeChargesAgainByTheRunsKeyAndReplaysByTheOrders(t *testing.T) {
	t.Parallel()
	b, w := newWorld(t)
	var both sync.WaitGroup
	for key, want := range map[string]int{byDefaultKey: 2, byKeyFrom: 1} {
		l := life{Key: key, Event: reset}
		both.Go(func() {
			b.live(t, w, l)
			if got := w.of(l); got != want {
				t.Errorf("%s: %d charges, want %d", key, got, want)
			}
		})
	}
	both.Wait()
}
