// Serve draws the boards of a folder, from a Prometheus of its own that scrapes a target, or from one that is
// there already:
//
//	go -C integration run ./preview/serve -target 127.0.0.1:9464
//	go -C integration run ./preview/serve -prometheus http://127.0.0.1:9090
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/onceguard/onceguard/integration/preview"
)

type options struct {
	addr, target, prometheus, boards, rules string
	scrape                                  time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:9465", "where to serve")
	flag.StringVar(&o.boards, "boards", filepath.Join("..", "dashboards"), "folder of the boards")
	flag.StringVar(&o.prometheus, "prometheus", "", "URL of a Prometheus; without one it starts its own")
	flag.StringVar(&o.target, "target", "127.0.0.1:9464", "what its own Prometheus scrapes")
	flag.StringVar(&o.rules, "rules", filepath.Join("..", "dashboards", "rules", "onceguard.rules.yml"), "rules of its own Prometheus")
	flag.DurationVar(&o.scrape, "scrape", 5*time.Second, "how often its own Prometheus scrapes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "preview:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	boards, err := preview.Boards(os.DirFS(o.boards))
	if err != nil {
		return err
	}
	at, err := url.Parse(o.prometheus)
	if err != nil {
		return err
	}
	if o.prometheus == "" {
		rules, err := filepath.Abs(o.rules)
		if err != nil {
			return err
		}
		own, stopped, err := preview.Prometheus{Target: o.target, Scrape: o.scrape, Rules: rules}.Start(ctx)
		if err != nil {
			return err
		}
		defer func() { <-stopped }()
		at = own
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.addr)
	if err != nil {
		return fmt.Errorf("%w: choose another -addr", err)
	}
	server := &http.Server{Handler: preview.Handler(boards, at), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("boards:     http://%s/\nprometheus: %s\n", listener.Addr(), at)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
