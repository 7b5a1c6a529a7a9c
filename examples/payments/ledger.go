package main

import (
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

// ledger is the provider's book. It knows nothing of duplicates: each call books
// a charge.
type ledger struct {
	mu      sync.Mutex
	booked  int
	byOrder map[string][]Receipt
}

func newLedger() *ledger { return &ledger{byOrder: make(map[string][]Receipt)} }

func (l *ledger) charge(o Order) Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.booked++
	r := Receipt{Charge: fmt.Sprintf("charge-%d", l.booked), Order: o}
	l.byOrder[o.ID] = append(l.byOrder[o.ID], r)
	return r
}

// charges returns a copy of the book: the charges of each order.
func (l *ledger) charges() map[string][]Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := maps.Clone(l.byOrder)
	for id, receipts := range out {
		out[id] = slices.Clone(receipts)
	}
	return out
}
