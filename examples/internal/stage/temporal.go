package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// Connect connects to the server at the address. The client does not log: the attempts that fail are
// part of the examples.
func Connect(ctx context.Context, addr string) (client.Client, error) {
	return client.DialContext(ctx, client.Options{
		HostPort: addr, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
}

// startTemporal starts a dev server and returns its address. It does what the SDK's
// testsuite.StartDevServer does, which has no way to tie the server's life to ours: the server
// does not look whether its parent is still there.
func (e *Env) startTemporal(ctx context.Context) (addr string, err error) {
	path, err := findTemporal(ctx)
	if err != nil {
		return "", err
	}
	port, err := FreePort()
	if err != nil {
		return "", err
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	server, err := start(exec.Command(path, ServerArgs(strconv.Itoa(port))...)) //nolint:gosec,noctx // the user's CLI; e.close ends it
	if err != nil {
		return "", err
	}
	e.later(server.stop)
	if err := untilServing(ctx, server, addr); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	fmt.Printf("a Temporal dev server is on %s\n", addr)
	return addr, nil
}

func untilServing(ctx context.Context, server *Process, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		c, err := Connect(ctx, addr)
		if err == nil {
			c.Close()
			return nil
		}
		select {
		case <-server.gone:
			return errors.New("it ended: " + server.cmd.ProcessState.String())
		case <-ctx.Done():
			return err
		case <-time.After(startPoll):
		}
	}
}

const (
	startPatience = time.Minute
	startPoll     = 50 * time.Millisecond
)

// findTemporal returns the path of the Temporal CLI. That which the repository pins is built
// the first time.
func findTemporal(ctx context.Context) (string, error) {
	path, pinned, err := FindCLI()
	switch {
	case err != nil:
		return "", fmt.Errorf("give the address of a server with -temporal: %w", err)
	case path != "":
		return path, nil
	}
	fmt.Println("no temporal is on the PATH; the first time it takes some minutes to build the pinned one")
	build := exec.CommandContext(ctx, "go", BuildArgs()...) //nolint:gosec // constants
	build.Dir, build.Stderr = pinned, os.Stderr
	build.Env = append(os.Environ(), BuildEnv()...)
	built, err := build.Output()
	return strings.TrimSpace(string(built)), err
}
