package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// runProvider serves the payment provider until its parent closes its input.
func runProvider(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("provider", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on")
	takes := flags.Duration("takes", chargeTakes, "how long one charge takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := untilStdinEnds(ctx)
	defer cancel()
	return serve(ctx, *listen, providerHandler(newLedger(), *takes), func(addr string) {
		tell(wordReady, "http://"+addr)
	})
}

// providerHandler is the provider's API. It has no idempotency of its own: each
// POST is a charge, whether the caller is still there for the receipt or not.
func providerHandler(book *ledger, takes time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", func(w http.ResponseWriter, r *http.Request) {
		var order Order
		err := json.NewDecoder(r.Body).Decode(&order)
		if err != nil || order.ID == "" || order.Cents <= 0 {
			http.Error(w, "an order and a positive number of cents are needed", http.StatusBadRequest)
			return
		}
		<-time.After(takes)
		receipt := book.charge(order)
		fmt.Printf("booked %s: %s, %d cents\n", receipt.Charge, receipt.ID, receipt.Cents)
		writeJSON(w, receipt)
	})
	mux.HandleFunc("GET /charges", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, book.charges())
	})
	return mux
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only when the caller has left
}

// serve serves HTTP until ctx is done and tells the address it got.
func serve(ctx context.Context, listen string, handler http.Handler, ready func(addr string)) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	ready(listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// provider is the client of the payment provider.
type provider struct{ url string }

func (p provider) charge(ctx context.Context, o Order) (receipt Receipt, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return Receipt{}, err
	}
	err = call(ctx, http.MethodPost, p.url+"/charges", body, &receipt)
	return receipt, err
}

func (p provider) charges(ctx context.Context) (book map[string][]Receipt, err error) {
	err = call(ctx, http.MethodGet, p.url+"/charges", nil, &book)
	return book, err
}

func call(ctx context.Context, method, url string, body []byte, reply any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, bytes.TrimSpace(text))
	}
	return json.NewDecoder(resp.Body).Decode(reply)
}
