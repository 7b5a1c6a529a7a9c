package endings

import (
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// attentive is a worker whose activities hear of a cancel soon.
func attentive() worker.Options {
	return worker.Options{MaxHeartbeatThrottleInterval: 100 * time.Millisecond}
}

// ended begins a workflow and ends it when its activity has had its effect.
func (l *lab) ended(end func(client.WorkflowRun) error) client.WorkflowRun {
	l.t.Helper()
	l.start()
	run := l.begin()
	l.effect()
	if err := end(run); err != nil {
		l.t.Fatal(err)
	}
	return run
}

func (l *lab) cancel(run client.WorkflowRun) error {
	return l.site.client.CancelWorkflow(l.ctx, run.GetID(), run.GetRunID())
}

func (l *lab) terminate(run client.WorkflowRun) error {
	return l.site.client.TerminateWorkflow(l.ctx, run.GetID(), "", "seen enough")
}

func ofCancels() []ending {
	canceled := func(l *lab) { l.over(l.ended(l.cancel)) }
	return []ending{
		{
			name: "cancel, noticed", run: canceled,
			setup: setup{then: heeds, worker: attentive(), plan: plan{AwaitsCancel: true}},
		},
		{
			name: "cancel, noticed, `AtMostOnce`; called again", run: canceled, setup: setup{
				then: heeds, worker: attentive(), key: byOrder(), options: atMostOnce(),
				plan: plan{AwaitsCancel: true, Then: chargesAgain},
			},
		},
		{
			name: "cancel, not noticed", setup: setup{then: hangs}, run: func(l *lab) {
				canceled(l)
				close(l.goOn)
			},
		},
		{
			name: "cancel, not noticed; called again", run: func(l *lab) {
				run := l.ended(l.cancel)
				l.askedTwice()
				close(l.goOn)
				l.over(run)
			},
			setup: setup{then: hangs, key: byOrder(), plan: plan{Then: chargesAgain}},
		},
		{
			name: "the workflow is terminated, noticed", setup: setup{then: heeds, worker: attentive()},
			run: func(l *lab) { l.ended(l.terminate) },
		},
		{
			name: "the workflow is terminated, not noticed", setup: setup{then: hangs}, run: func(l *lab) {
				l.ended(l.terminate)
				close(l.goOn)
			},
		},
	}
}
