package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/onceguard/onceguard/examples/internal/provider"
)

// What the provider takes and gives.
type (
	Order   = provider.Order
	Receipt = provider.Receipt
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
	handler := provider.Handler(provider.NewLedger(), provider.Options{
		Before: func(Order) { <-time.After(*takes) },
		Booked: func(r Receipt) { fmt.Printf("booked %s: %s, %d cents\n", r.Charge, r.ID, r.Cents) },
	})
	return serve(ctx, *listen, handler, func(addr string) {
		tell(wordReady, "http://"+addr)
	})
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
