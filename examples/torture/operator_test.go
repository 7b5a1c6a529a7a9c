//go:build unix

package torture

import (
	"context"
	"errors"
	"net/http/httptest"
	"time"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
)

// settleByHand is the operator who looks at the ledger, when nothing can be charged any more, and
// says what has happened. Then the key is as good as new.
func (r *round) settleByHand() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := r.resolve(ctx)
	for looksAgain(err) && ctx.Err() == nil {
		r.say("the operator looks again: %v", err)
		r.sum.Add("the operator looked again", 1)
		<-time.After(r.Lease)
		err = r.resolve(ctx)
	}
	if err != nil {
		return err
	}
	server := httptest.NewServer(provider.Handler(r.network.ledger, provider.Options{}))
	defer server.Close()
	r.here.client.URL = server.URL
	return r.insist("the call after the operator")
}

var errAtWork = errors.New("its owner is at work")

// looksAgain says whether that is what an operator does: the key may be settled all the
// same, or a caller of this process, whose results are written behind it, has been
// faster, or is about to be.
func looksAgain(err error) bool {
	return errors.Is(err, guard.ErrStorage) || errors.Is(err, guard.ErrNotResolved) || errors.Is(err, errAtWork)
}

// resolve settles the key, if it is open.
func (r *round) resolve(ctx context.Context) error {
	charges := r.network.ledger.Book()[r.Order.ID]
	for key, err := range r.here.guard.List(ctx, guard.ListQuery{}) {
		switch {
		case err != nil:
			return err
		case key.Key.Name != r.Order.ID:
			continue
		case key.State == guard.OpenRunning:
			return errAtWork
		}
		word := guard.Resolution[provider.Receipt]{Fence: key.Record.Fence, As: guard.StatusReleased}
		if len(charges) > 0 {
			word.As, word.Value = guard.StatusCompleted, charges[0]
		}
		err = r.here.charge.Resolve(ctx, r.Order.ID, word)
		r.say("the operator: %s is %s: %v", key.State, word.As, err)
		if err == nil {
			r.sum.Add("resolved as "+string(word.As), 1)
		}
		return err
	}
	return nil
}
