package main

import (
	"context"
	"errors"
	"net"
	"net/http"

	"go.temporal.io/sdk/temporal"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
)

// TypeDeclined and TypeBadOrder are the provider's definite answers, as Checkout sees
// them. Another attempt would get the same.
const (
	TypeDeclined = "CardDeclined"
	TypeBadOrder = "BadOrder"
)

// toTemporal makes an application error of an answer that Temporal is not to try
// again. The provider's error is its cause.
func toTemporal(err error) error {
	switch {
	case errors.Is(err, provider.ErrDeclined):
		return temporal.NewNonRetryableApplicationError("the card is declined", TypeDeclined, err)
	case isBadOrder(err):
		return temporal.NewNonRetryableApplicationError("the provider takes no such order", TypeBadOrder, err)
	default:
		return err
	}
}

// whatItMeans is the failure policy: what an error of ChargeCard says about the charge.
// It names the errors of which that is certain. All others, a timeout or a reset after
// the request was written, a 500, a 502 of something in front of the provider, leave
// open whether the card is charged: the guard holds the key, and the next attempt asks
// the provider.
func whatItMeans(err error, _ bool) guard.Disposition {
	switch {
	case errors.Is(err, provider.ErrDeclined):
		return guard.Remember // the answer stays: whoever asks for this order again gets it
	case errors.Is(err, provider.ErrFenceTooOld), isBadOrder(err), neverSent(err):
		return guard.Release // no charge, and there will be none by this request
	default:
		return guard.Undecided
	}
}

func isBadOrder(err error) bool {
	answer, ok := errors.AsType[*provider.Error](err)
	return ok && answer.Status == http.StatusBadRequest
}

// neverSent reports that no connection was made, be it that the name has no address or
// that nobody listens there. It proves that nothing was sent, since net/http repeats a
// POST by itself only when nothing of it was written. That is no longer so with an
// Idempotency-Key in the header.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// askProvider makes the recovery hook: is there a charge for the order? From then on
// the provider refuses the fence of whoever was before, so that no charge of theirs
// arrives after the answer.
func askProvider(p provider.Client) guard.RecoveryFunc[Receipt] {
	return func(ctx context.Context, lost guard.Evidence) (Receipt, guard.Finding, error) {
		say(ctx, "asks the provider what became of the charge of "+lost.Dispatch.Owner.Label)
		receipts, err := p.Charges(ctx, lost.Key.Name, lost.Fence)
		switch {
		case err != nil:
			say(ctx, "got no answer: "+err.Error())
			return Receipt{}, guard.CannotTell, err
		case len(receipts) == 0:
			say(ctx, "there is none")
			return Receipt{}, guard.NotFound, nil
		default:
			say(ctx, "it is there: "+receipts[0].Charge)
			return receipts[0], guard.Found, nil
		}
	}
}
