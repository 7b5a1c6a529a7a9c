package endings

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/temporalx"
)

// pendingActivity is what an activity hands out to those who complete it later.
type pendingActivity struct {
	token []byte
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
	l.tokens <- pendingActivity{token, temporalx.PendingActivity{
		Namespace: client.DefaultNamespace, WorkflowID: l.id, ActivityID: activity.GetInfo(ctx).ActivityID,
		Type: chargeActivity, Key: key,
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
		{name: "to be completed later, and never is", setup: setup{then: comesLater, plan: plan{StartToClose: tooShort}}},
		{name: "to be completed later, and never is, `AtMostOnce`", setup: setup{
			then: comesLater, plan: plan{StartToClose: tooShort}, options: atMostOnce(),
		}},
	}
}
