package endings

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// pendingActivity is what an activity hands out to those who complete it later.
type pendingActivity struct {
	token []byte // the guard's
	task  []byte // the server's
	by    temporalx.PendingActivity
}

// comesLater leaves its result to a later completion, in its first run.
func comesLater(ctx context.Context, l *lab, n int64) error {
	if n > 1 {
		return nil
	}
	token, err := temporalx.CompletionToken(ctx)
	if err != nil {
		return err
	}
	key, err := temporalx.Key(ctx)
	if err != nil {
		return err
	}
	info := activity.GetInfo(ctx)
	l.tokens <- pendingActivity{token, info.TaskToken, temporalx.PendingActivity{
		Namespace: client.DefaultNamespace, WorkflowID: l.id, ActivityID: info.ActivityID, Type: chargeActivity, Key: key,
	}}
	return activity.ErrResultPending
}

// completed completes the activity when it has returned.
func completed(complete func(*lab, pendingActivity) error) func(*lab) {
	return func(l *lab) {
		l.start()
		run := l.begin()
		left := next(l, l.tokens, "token")
		l.idle()
		if err := complete(l, left); err != nil {
			l.t.Fatal(err)
		}
		l.over(run)
	}
}

func completeWithError(l *lab, of pendingActivity) error {
	return l.plugin.Interceptor().CompleteActivity(l.ctx, l.site.client, of.token, nil, errors.New("no word from the provider"))
}

// byTheClient completes the activity and leaves the record as it is.
func byTheClient(l *lab, of pendingActivity) error {
	return l.site.client.CompleteActivity(l.ctx, of.task, receipt(1), nil)
}

func ofCompletions() []ending {
	return []ending{
		{
			name: "completed later, by token", setup: setup{then: comesLater},
			run: completed(func(l *lab, of pendingActivity) error {
				return l.plugin.Interceptor().CompleteActivity(l.ctx, l.site.client, of.token, receipt(1), nil)
			}),
		},
		{
			name: "completed later, by id", setup: setup{then: comesLater},
			run: completed(func(l *lab, of pendingActivity) error {
				return l.plugin.Interceptor().CompleteActivityByID(l.ctx, l.site.client, of.by, receipt(1), nil)
			}),
		},
		{name: "completed later, with an error that is retried", setup: setup{then: comesLater}, run: completed(completeWithError)},
		{
			name: "completed later, with an error, `AtMostOnce`", run: completed(completeWithError),
			setup: setup{then: comesLater, options: atMostOnce()},
		},
		{
			name: "completed later, by the client's own method", setup: setup{then: comesLater},
			run: completed(byTheClient),
		},
		{
			name: "completed later, by the client's own method, `Refuse`; called again", run: completed(byTheClient),
			setup: setup{
				then: comesLater, key: byOrder(), plan: plan{StartToClose: tooShort, Then: chargesAgain},
				options: []guard.OperationOption{guard.OnInFlight(guard.Refuse)},
			},
		},
		{name: "to be completed later, and never is", setup: setup{then: comesLater, plan: plan{StartToClose: tooShort}}},
		{name: "to be completed later, and never is, `AtMostOnce`", setup: setup{
			then: comesLater, plan: plan{StartToClose: tooShort}, options: atMostOnce(),
		}},
	}
}
