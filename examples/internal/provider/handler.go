package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// FenceHeader carries the fence of a request. It is optional.
const FenceHeader = "Fence"

// Options of the handler. The zero value answers at once.
type Options struct {
	// Before is called with each order before it is booked, and Booked with each
	// receipt before it is sent. They may take their time: the one is a request that the
	// provider has not worked on yet, the other a reply that is still to come.
	Before func(Order)
	Booked func(Receipt)
}

// Handler is the provider's API:
//
//	POST /charges          books a charge for the Order in the body, whether the caller is still there for the Receipt or not
//	GET  /charges/{order}  the Receipts of an order; with a fence, smaller ones are refused from then on
//	GET  /charges          the whole book
//
// A declined card is status 402, a fence that is too old 409.
func Handler(book *Ledger, options Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", func(w http.ResponseWriter, r *http.Request) {
		var order Order
		err := json.NewDecoder(r.Body).Decode(&order)
		if err != nil || order.ID == "" || order.Cents <= 0 {
			http.Error(w, "an order and a positive number of cents are needed", http.StatusBadRequest)
			return
		}
		answer(w, r, func(fence int64) (any, error) {
			if options.Before != nil {
				options.Before(order)
			}
			receipt, err := book.Charge(order, fence)
			if err == nil && options.Booked != nil {
				options.Booked(receipt)
			}
			return receipt, err
		})
	})
	mux.HandleFunc("GET /charges/{order}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(fence int64) (any, error) { return book.Charges(r.PathValue("order"), fence) })
	})
	mux.HandleFunc("GET /charges", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(int64) (any, error) { return book.Book(), nil })
	})
	return mux
}

// answer serves one request with what do returns for its fence.
func answer(w http.ResponseWriter, r *http.Request, do func(fence int64) (any, error)) {
	var fence int64
	if header := r.Header.Get(FenceHeader); header != "" {
		var err error
		if fence, err = strconv.ParseInt(header, 10, 64); err != nil || fence <= 0 {
			http.Error(w, "the fence must be a positive integer", http.StatusBadRequest)
			return
		}
	}
	reply, err := do(fence)
	switch {
	case errors.Is(err, ErrDeclined):
		http.Error(w, err.Error(), http.StatusPaymentRequired)
	case errors.Is(err, ErrFenceTooOld):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply) // fails only when the caller has left
	}
}
