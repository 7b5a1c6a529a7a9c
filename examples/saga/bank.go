package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/onceguard/onceguard/examples/internal/provider"
)

// What the name of an order begins with is what happens to it.
const (
	answerLost  = "answer-lost"  // the first request is booked, and its answer does not arrive
	requestLost = "request-lost" // the first request gets lost before it is booked
	declined    = "declined"     // the card is
)

// bank is the payment provider: a book of charges and a book of refunds. Both are
// ledgers that book whatever they are asked for.
type bank struct {
	charges, refunds *book
	server           *httptest.Server
}

// book is a ledger behind connections that break.
type book struct {
	*provider.Ledger
	mu    sync.Mutex
	asked map[string]int // how often for each order
}

func openBank() *bank {
	b := &bank{charges: newBook(), refunds: newBook()}
	mux := http.NewServeMux()
	mux.Handle("/", b.charges.handler())
	mux.Handle("/refunds/", http.StripPrefix("/refunds", b.refunds.handler()))
	b.server = httptest.NewServer(mux)
	return b
}

func newBook() *book { return &book{Ledger: provider.NewLedger(), asked: map[string]int{}} }

func (b *book) handler() http.Handler {
	return provider.Handler(b.Ledger, provider.Options{
		Before: func(o Order) {
			if b.ask(o.ID, 1) == 1 && strings.HasPrefix(o.ID, requestLost) {
				panic(http.ErrAbortHandler) // the connection ends without an answer
			}
		},
		Booked: func(r Receipt) {
			if b.ask(r.ID, 0) == 1 && strings.HasPrefix(r.ID, answerLost) {
				panic(http.ErrAbortHandler)
			}
		},
	})
}

// ask counts more requests for an order and returns how many there were.
func (b *book) ask(order string, more int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[order] += more
	return b.asked[order]
}

// entries is how often an order is in the book.
func (b *book) entries(order string) int { return len(b.Book()[order]) }
