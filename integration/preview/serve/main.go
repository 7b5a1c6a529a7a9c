// Serve draws the boards of a folder in a browser, from a Prometheus:
//
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

func main() {
	addr := flag.String("addr", "127.0.0.1:9465", "where to serve")
	dir := flag.String("boards", filepath.Join("..", "dashboards"), "folder of the boards")
	prometheus := flag.String("prometheus", "http://127.0.0.1:9090", "URL of the Prometheus")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *addr, *dir, *prometheus)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "preview:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr, dir, prometheus string) error {
	boards, err := preview.Boards(os.DirFS(dir))
	if err != nil {
		return err
	}
	at, err := url.Parse(prometheus)
	if err != nil || at.Host == "" {
		return fmt.Errorf("-prometheus=%q: no URL such as http://127.0.0.1:9090", prometheus)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("%w: choose another -addr", err)
	}
	server := &http.Server{Handler: preview.Handler(boards, at), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("boards: http://%s/\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
