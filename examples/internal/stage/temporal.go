// Package stage is what the small examples stand on: a Temporal server, a Redis, and
// worker processes that may be killed.
package stage

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/onceguard/onceguard/examples/internal/temporalcli"
)

// Temporal is a client of a Temporal server, and the server's address.
type Temporal struct {
	Client client.Client
	Addr   string
	server *testsuite.DevServer // nil if it is not ours
}

// quietly are the options of a client that does not log: the attempts that fail are part of the
// examples.
func quietly() client.Options {
	return client.Options{Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))}
}

// Connect connects to the server at the address.
func Connect(ctx context.Context, addr string) (client.Client, error) {
	options := quietly()
	options.HostPort = addr
	return client.DialContext(ctx, options)
}

// StartTemporal connects to the server at the address, or starts a dev server if there is
// none. Close it.
func StartTemporal(ctx context.Context, addr string) (*Temporal, error) {
	if addr != "" {
		c, err := Connect(ctx, addr)
		return &Temporal{Client: c, Addr: addr}, err
	}
	path, err := findTemporal(ctx)
	if err != nil {
		return nil, err
	}
	options := quietly()
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

// findTemporal returns the path of the Temporal CLI. That which the repository pins is built
// the first time.
func findTemporal(ctx context.Context) (string, error) {
	path, pinned, err := temporalcli.Find()
	switch {
	case err != nil:
		return "", fmt.Errorf("no Temporal server: give the address of one with -temporal: %w", err)
	case path != "":
		return path, nil
	}
	fmt.Println("no temporal is on the PATH; the first time it takes some minutes to build the pinned one")
	build := exec.CommandContext(ctx, "go", temporalcli.BuildArgs()...) //nolint:gosec // constants
	build.Dir, build.Stderr = pinned, os.Stderr
	build.Env = append(os.Environ(), temporalcli.BuildEnv()...)
	built, err := build.Output()
	return strings.TrimSpace(string(built)), err
}
