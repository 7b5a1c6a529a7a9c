package realtest

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// TemporalServer is a Temporal dev server of its own process, with the
// namespace "default" and everything in memory.
type TemporalServer struct {
	addr    string
	process *process
	client  client.Client
}

// Temporal starts a dev server for this test, in about a second. The args are
// added to `temporal server start-dev`.
func Temporal(tb testing.TB, args ...string) *TemporalServer {
	tb.Helper()
	s, err := startTemporal(args...)
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(s.remove)
	return s
}

// SharedTemporal is one dev server for all tests of the binary, started by the
// first that asks. Use a task queue and workflow ids of your own on it.
func SharedTemporal(tb testing.TB) *TemporalServer {
	tb.Helper()
	needMain(tb)
	s, err := shared.temporal()
	if err != nil {
		giveUp(tb, err)
	}
	return s
}

// Addr is the host and port of the frontend service.
func (s *TemporalServer) Addr() string { return s.addr }

// Client is a client with the SDK's defaults, but silent. The server closes it.
func (s *TemporalServer) Client() client.Client { return s.client }

// Dial connects another client, for options of your own, until the test ends.
// HostPort is set, and Logger to a silent one if it is nil.
func (s *TemporalServer) Dial(tb testing.TB, options client.Options) client.Client {
	tb.Helper()
	c, err := dialTemporal(tb.Context(), s.addr, options)
	if err != nil {
		tb.Fatalf("dial the Temporal dev server: %v", err)
	}
	tb.Cleanup(c.Close)
	return c
}

// startTemporal does what the SDK's testsuite.StartDevServer does, which does
// not let us tie the child's life to ours.
func startTemporal(args ...string) (*TemporalServer, error) {
	path, err := findTemporal()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := startProcess(path, append([]string{
		"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port),
		"--log-level", "never",
		// By default every timer and activity timeout fires up to a second late.
		"--dynamic-config-value", `history.timerProcessorMaxTimeShift="1ms"`,
	}, args...)...)
	if err != nil {
		return nil, err
	}
	s := &TemporalServer{addr: local(port), process: p}
	err = p.waitReady(func(ctx context.Context) (err error) {
		s.client, err = dialTemporal(ctx, s.addr, client.Options{})
		return err
	})
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("Temporal dev server on port %d: %w", port, err)
	}
	return s, nil
}

func dialTemporal(ctx context.Context, addr string, options client.Options) (client.Client, error) {
	options.HostPort = addr
	if options.Logger == nil {
		options.Logger = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	}
	return client.DialContext(ctx, options)
}

func (s *TemporalServer) remove() {
	s.client.Close()
	s.process.stop()
}
