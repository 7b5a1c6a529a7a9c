package endings

import (
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// resetWorkflow takes a workflow that is over back to before its charge.
func (l *lab) resetWorkflow(run client.WorkflowRun) client.WorkflowRun {
	l.t.Helper()
	var first int64 // workflow task
	events := l.site.client.GetWorkflowHistory(l.ctx, run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for first == 0 {
		event, err := events.Next()
		if err != nil {
			l.t.Fatal(err)
		}
		if event.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			first = event.GetEventId()
		}
	}
	again, err := l.site.client.ResetWorkflowExecution(l.ctx, &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, Reason: "to be made again", WorkflowTaskFinishEventId: first,
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
		RequestId:         uuid.NewString(),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return l.site.client.GetWorkflow(l.ctx, run.GetID(), again.GetRunId())
}

func wasReset(l *lab) {
	l.start()
	run := l.begin()
	l.over(run)
	l.over(l.resetWorkflow(run))
}

func wasRetried(l *lab) {
	l.start()
	l.over(l.begin(func(o *client.StartWorkflowOptions) {
		o.RetryPolicy = &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: 2}
	}))
}

// hasRecurred ends a workflow of a schedule in its second run.
func hasRecurred(l *lab) {
	l.start()
	run := l.begin(func(o *client.StartWorkflowOptions) { o.CronSchedule = "@every 1s" })
	l.until("charged in two runs", func() bool { return len(l.site.board.of(l.id)) == 2 })
	if err := l.terminate(run); err != nil {
		l.t.Fatal(err)
	}
}

func ofRuns() []ending {
	var all []ending
	for _, e := range []ending{
		{name: "the workflow is reset to before the call", run: wasReset},
		{name: "the workflow fails and is retried", run: wasRetried, setup: setup{plan: plan{Then: fails}}},
		{name: "the workflow runs again by cron", run: hasRecurred, setup: setup{plan: plan{Then: recurs}}},
		{name: "the workflow continues as new", setup: setup{plan: plan{Then: continues}}},
	} {
		all = append(all, e)
		e.name, e.setup.key = e.name+", `KeyFrom`", byOrder()
		all = append(all, e)
	}
	return all
}
