// Package provider is the payment provider of the examples: a ledger, the HTTP API
// to it, and the client. It has no idempotency of its own: each charge that it is asked
// for is booked. What it has is fences: it refuses a request whose fence is smaller
// than one that it has seen for the order.
package provider

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Order is what a customer buys.
type Order struct {
	ID    string `json:"order"`
	Cents int64  `json:"cents"`
}

// Receipt is the provider's word that a card was charged.
type Receipt struct {
	Charge string `json:"charge"`
	Order
}

// The refusals of the provider. Both are definite: nothing was booked, and nothing will be by this request.
var (
	ErrDeclined    = errors.New("the card is declined")
	ErrFenceTooOld = errors.New("the fence is too old")
)

// DeclinedCents is what no card of the examples is good for.
const DeclinedCents = 40200

// Ledger is the provider's book. It knows nothing of duplicates: each call of Charge
// books a charge.
type Ledger struct {
	mu      sync.Mutex
	booked  int
	byOrder map[string][]Receipt
	floors  map[string]int64 // the largest fence that was seen for an order
}

// NewLedger returns an empty book.
func NewLedger() *Ledger {
	return &Ledger{byOrder: make(map[string][]Receipt), floors: make(map[string]int64)}
}

// Charge books a charge. A request without a fence has fence 0, and is never refused for
// it: the protection is for those who send one.
func (l *Ledger) Charge(o Order, fence int64) (Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.raise(o.ID, fence); err != nil {
		return Receipt{}, err
	}
	if o.Cents == DeclinedCents {
		return Receipt{}, ErrDeclined
	}
	l.booked++
	r := Receipt{Charge: fmt.Sprintf("charge-%d", l.booked), Order: o}
	l.byOrder[o.ID] = append(l.byOrder[o.ID], r)
	return r, nil
}

// Charges returns the charges of an order. If there is a fence, no request with a smaller one
// is accepted from then on, in one step with the look: that there is no charge is then
// final for whoever was before.
func (l *Ledger) Charges(order string, fence int64) ([]Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.raise(order, fence); err != nil {
		return nil, err
	}
	return slices.Clone(l.byOrder[order]), nil
}

// raise takes note of a fence, or refuses it.
func (l *Ledger) raise(order string, fence int64) error {
	if fence == 0 {
		return nil
	}
	if floor := l.floors[order]; fence < floor {
		return fmt.Errorf("%w: it is %d, and %d was here before", ErrFenceTooOld, fence, floor)
	}
	l.floors[order] = fence
	return nil
}

// Book returns a copy of the book: the charges of each order.
func (l *Ledger) Book() map[string][]Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := maps.Clone(l.byOrder)
	for id, receipts := range out {
		out[id] = slices.Clone(receipts)
	}
	return out
}
