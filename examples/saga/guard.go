package main

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/converter"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// settle is how long a request may be on its way before the bank is asked what became of
// it. It need not be long, since the bank heeds fences.
const settle = 200 * time.Millisecond

// guardMoney guards the two activities that move money. Both have the order as their key; the
// charge and the refund of one order are two effects all the same, since each activity is an
// operation of its own.
func guardMoney(store guard.Store, a *Activities) (*temporalx.Plugin, error) {
	g, err := guard.New(store, guard.WithLease(2*time.Second))
	if err != nil {
		return nil, err
	}
	money := []guard.OperationOption{guard.ForPayments(), guard.OnFailure(whatItMeans), guard.WithSettleTime(settle)}
	return temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{{
			Activity: "ChargeCard",
			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
			Recovery: temporalx.RecoverWith(asking(a.charges)),
			Options:  money,
		}, {
			Activity: "RefundCharge",
			Key:      temporalx.KeyFrom(func(charged Receipt) (string, error) { return charged.ID, nil }),
			Recovery: temporalx.RecoverWith(asking(a.refunds)),
			Options:  money,
		}},
	})
}

// whatItMeans is the failure policy. A declined card is an answer, and stays one. Whatever
// else goes wrong leaves open whether the bank has booked: the next attempt asks it.
func whatItMeans(err error, _ bool) guard.Disposition {
	if errors.Is(err, provider.ErrDeclined) {
		return guard.Remember
	}
	return guard.Undecided
}

// asking makes the recovery hook for one of the bank's books: is the order in it? From then on the
// bank refuses the fence of whoever was before, so that no request of theirs arrives after
// the answer.
func asking(p provider.Client) guard.RecoveryFunc[Receipt] {
	return func(ctx context.Context, lost guard.Evidence) (Receipt, guard.Finding, error) {
		receipts, err := p.Charges(ctx, lost.Key.Name, lost.Fence)
		switch {
		case err != nil:
			return Receipt{}, guard.CannotTell, err
		case len(receipts) == 0:
			say(ctx, "asks what became of the first request: the bank has not booked it")
			return Receipt{}, guard.NotFound, nil
		default:
			say(ctx, "asks what became of the first request: the bank has booked it")
			return receipts[0], guard.Found, nil
		}
	}
}
