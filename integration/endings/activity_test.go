package endings

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

var errReplyLost = temporal.NewApplicationError("the reply is lost", "ReplyLost")

// atMostOnce are the options of a charge that nobody may repeat.
func atMostOnce() []guard.OperationOption {
	return []guard.OperationOption{guard.ForPayments(), guard.AtMostOnce()}
}

func byOrder() temporalx.KeyFunc { return temporalx.KeyFrom(orderID) }

// The ends of an activity that has had its effect. All but that of its first run is well.

func failsOnce(_ context.Context, _ *lab, n int64) error {
	if n == 1 {
		return errors.New("no word from the provider")
	}
	return nil
}

func isDeclined(context.Context, *lab, int64) error {
	return temporal.NewNonRetryableApplicationError("the card is declined", "Declined", nil)
}

func panicsOnce(_ context.Context, _ *lab, n int64) error {
	if n == 1 {
		panic("out of paper")
	}
	return nil
}

// hangs knows nothing of its context.
func hangs(_ context.Context, l *lab, n int64) error {
	if n == 1 {
		<-l.goOn
	}
	return nil
}

// heeds ends with its context, and heartbeats meanwhile.
func heeds(ctx context.Context, l *lab, n int64) error {
	if n > 1 {
		return nil
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			activity.RecordHeartbeat(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func ofTheActivity() []ending {
	return []ending{
		{name: "success"},
		{name: "success, the answer to the server is lost", setup: setup{losesReply: true}},
		{name: "error", setup: setup{then: failsOnce}},
		{name: "error, `AtMostOnce`", setup: setup{then: failsOnce, options: atMostOnce()}},
		{name: "error that is not retried", setup: setup{then: isDeclined}},
		{name: "error that is not retried and that the rule remembers; called again", setup: setup{
			then: isDeclined, key: byOrder(), plan: plan{Then: chargesAgain},
			options: []guard.OperationOption{guard.OnFailure(temporalx.RememberNonRetryable)},
		}},
		{name: "panic", setup: setup{then: panicsOnce}},
		{name: "panic, `AtMostOnce`", setup: setup{then: panicsOnce, options: atMostOnce()}},
	}
}
