package endings

import (
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// The calls of an operator that a server 1.29 has. Later ones have others for the same.

func (l *lab) pause(run client.WorkflowRun) error {
	_, err := l.site.client.WorkflowService().PauseActivity(l.ctx, &workflowservice.PauseActivityRequest{
		Namespace: client.DefaultNamespace, Execution: &commonpb.WorkflowExecution{WorkflowId: run.GetID()},
		Activity: &workflowservice.PauseActivityRequest_Type{Type: chargeActivity},
	})
	return err
}

func (l *lab) unpause(run client.WorkflowRun) {
	l.t.Helper()
	_, err := l.site.client.WorkflowService().UnpauseActivity(l.ctx, &workflowservice.UnpauseActivityRequest{
		Namespace: client.DefaultNamespace, Execution: &commonpb.WorkflowExecution{WorkflowId: run.GetID()},
		Activity: &workflowservice.UnpauseActivityRequest_Type{Type: chargeActivity},
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) resetActivity(run client.WorkflowRun) error {
	_, err := l.site.client.WorkflowService().ResetActivity(l.ctx, &workflowservice.ResetActivityRequest{
		Namespace: client.DefaultNamespace, Execution: &commonpb.WorkflowExecution{WorkflowId: run.GetID()},
		Activity: &workflowservice.ResetActivityRequest_Type{Type: chargeActivity},
	})
	return err
}

func ofOperators() []ending {
	paused := func(l *lab) {
		run := l.ended(l.pause)
		l.idle()
		l.unpause(run)
		l.over(run)
	}
	reset := func(l *lab) { l.over(l.ended(l.resetActivity)) }
	return []ending{
		{name: "the activity is paused, noticed, and unpaused", run: paused, setup: setup{then: heeds, worker: attentive()}},
		{
			name: "the activity is paused, noticed, and unpaused, `AtMostOnce`", run: paused,
			setup: setup{then: heeds, worker: attentive(), options: atMostOnce()},
		},
		{
			name: "the activity is paused, not noticed", setup: setup{then: hangs}, run: func(l *lab) {
				run := l.ended(l.pause)
				close(l.goOn)
				l.over(run)
			},
		},
		{name: "the activity is reset, noticed", run: reset, setup: setup{then: heeds, worker: attentive()}},
		{
			name: "the activity is reset, noticed, `AtMostOnce`", run: reset,
			setup: setup{then: heeds, worker: attentive(), options: atMostOnce()},
		},
		{
			name: "the activity is reset, not noticed", setup: setup{then: hangs}, run: func(l *lab) {
				run := l.ended(l.resetActivity)
				close(l.goOn)
				l.over(run)
			},
		},
	}
}
