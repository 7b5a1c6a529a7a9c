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
// namespace "default" and everything in memory unless its args name a file.
type TemporalServer struct {
	addr    string
	path    string
	args    []string
	process *process
	client  client.Client
	tb      testing.TB // of the test that it belongs to, nil when it is shared
}

// Temporal starts a dev server for this test, in about a second. The args are
// added to `temporal server start-dev`. With --db-filename it finds all again after a
// Kill and a Start.
func Temporal(tb testing.TB, args ...string) *TemporalServer {
	tb.Helper()
	s, err := startTemporal(args...)
	if err != nil {
		giveUp(tb, err)
	}
	s.tb = tb
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

// Kill ends a server of one test as a crash would. Clients stay, and find it again after
// a Start.
func (s *TemporalServer) Kill() {
	s.own().Helper()
	s.process.kill()
}

// Start starts the server again on the port that it had. What runs already stays as it
// is.
func (s *TemporalServer) Start() {
	s.own().Helper()
	if s.process.alive() {
		return
	}
	if err := s.start(); err != nil {
		s.tb.Fatalf("restart: %v", err)
	}
}

// own is the test that the server belongs to.
func (s *TemporalServer) own() testing.TB {
	if s.tb == nil {
		panic("this Temporal dev server is shared by other tests: start one with realtest.Temporal")
	}
	return s.tb
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
	s := &TemporalServer{addr: local(port), path: path, args: append([]string{
		"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port),
		"--log-level", "never",
		// By default every timer and activity timeout fires up to a second late.
		"--dynamic-config-value", `history.timerProcessorMaxTimeShift="1ms"`,
	}, args...)}
	return s, s.start()
}

// start returns once the server answers.
func (s *TemporalServer) start() (err error) {
	if s.process, err = startProcess(s.path, s.args...); err != nil {
		return err
	}
	if err = s.process.waitReady(s.answers); err != nil {
		s.process.kill()
		return fmt.Errorf("Temporal dev server on %s: %w", s.addr, err)
	}
	return nil
}

// answers asks for a sign of life, of which the first makes the server's own client.
func (s *TemporalServer) answers(ctx context.Context) (err error) {
	if s.client != nil {
		_, err = s.client.CheckHealth(ctx, nil)
		return err
	}
	s.client, err = dialTemporal(ctx, s.addr, client.Options{})
	return err
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
