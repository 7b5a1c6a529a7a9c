// Package stage is what the small examples stand on: a Temporal server, a Redis, and
// worker processes that may be killed.
package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
)

// Temporal is a client of a Temporal server, and the server's address.
type Temporal struct {
	Client client.Client
	Addr   string
	server *testsuite.DevServer // nil if it is not ours
}

// StartTemporal connects to the server at the address, or starts a dev server if there is
// none. Close it.
func StartTemporal(ctx context.Context, addr string) (*Temporal, error) {
	options := client.Options{HostPort: addr, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	if addr != "" {
		c, err := client.DialContext(ctx, options)
		return &Temporal{Client: c, Addr: addr}, err
	}
	path, err := findTemporal(ctx)
	if err != nil {
		return nil, err
	}
	server, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
		ExistingPath: path, ClientOptions: &options, LogLevel: "never", Stdout: io.Discard, Stderr: io.Discard,
		// By default every activity timeout fires up to a second late.
		ExtraArgs: []string{"--dynamic-config-value", `history.timerProcessorMaxTimeShift="1ms"`},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	fmt.Printf("a Temporal dev server is on %s\n", server.FrontendHostPort())
	return &Temporal{Client: server.Client(), Addr: server.FrontendHostPort(), server: server}, nil
}

// Close closes the client, and ends the server if it is ours.
func (t *Temporal) Close() {
	t.Client.Close()
	if t.server != nil {
		_ = t.server.Stop()
	}
}

// findTemporal returns the path of the Temporal CLI: the one that the environment names,
// the one on the PATH, or the one that the repository pins, which is built the first time.
func findTemporal(ctx context.Context) (string, error) {
	if path := os.Getenv("ONCEGUARD_TEMPORAL"); path != "" {
		return exec.LookPath(path)
	}
	if path, err := exec.LookPath("temporal"); err == nil {
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		module := filepath.Join(dir, "tools", "temporal")
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
			continue
		}
		fmt.Println("no temporal is on the PATH; the first time it takes some minutes to build the pinned one")
		build := exec.CommandContext(ctx, "go", "tool", "-n", "temporal")
		build.Dir, build.Stderr = module, os.Stderr
		build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		path, err := build.Output()
		return strings.TrimSpace(string(path)), err
	}
	return "", errors.New("no Temporal server: give the address of one with -temporal, put temporal on the PATH, " +
		"or set ONCEGUARD_TEMPORAL to the path of the Temporal CLI")
}
