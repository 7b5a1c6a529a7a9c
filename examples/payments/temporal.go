package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/onceguard/onceguard/examples/internal/stage"
)

const (
	readyPoll     = 50 * time.Millisecond // between two looks at a server that starts
	buildPatience = 10 * time.Second      // a build that was done before takes less
	buildSign     = 10 * time.Second      // between two signs of life of the build
)

// findTemporal returns the path of the Temporal CLI: the one that the
// environment names, the one on the PATH, or the one that the repository pins,
// which is built into the Go build cache the first time.
func findTemporal(ctx context.Context, f *family) (string, error) {
	path, pinned, err := stage.FindCLI()
	if err != nil || path != "" {
		return path, err
	}
	f.console.say("Temporal: no temporal on the PATH; taking the one that tools/temporal pins, from the Go build cache")
	build, err := f.start(program{
		name: "go", path: "go", args: stage.BuildArgs(), dir: pinned,
		env: stage.BuildEnv(), answer: func(line string) { path = line },
	})
	if err != nil {
		return "", err
	}
	stopSigns := signsOfLife(f.console)
	defer stopSigns()
	if err := build.finish(ctx); err != nil {
		return "", fmt.Errorf("build the pinned Temporal CLI: %w", err)
	}
	return path, nil
}

// signsOfLife says, while a build goes on, that it does.
func signsOfLife(con *console) (stop func()) {
	done := make(chan struct{})
	go func() {
		start := time.Now()
		next := time.After(buildPatience)
		for first := true; ; first = false {
			select {
			case <-done:
				return
			case <-next:
			}
			if first {
				con.say("Temporal: it is not there yet and is built now, once; that takes a few minutes")
			} else {
				con.say("Temporal: still building, %s so far", time.Since(start).Round(time.Second))
			}
			next = time.After(buildSign)
		}
	}()
	return func() { close(done) }
}

// startTemporal starts a dev server that keeps everything in memory. It does
// what the SDK's testsuite.StartDevServer does, which has no way to tie the
// server's life to ours and leaves it behind when the start is interrupted.
func (d *demo) startTemporal(ctx context.Context, path string) error {
	port, err := stage.FreePort()
	if err != nil {
		return err
	}
	d.temporalAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	server, err := d.family.start(program{
		name: "temporal", path: path, quiet: true, args: stage.ServerArgs(strconv.Itoa(port)),
	})
	if err != nil {
		return err
	}
	silent := sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	err = d.untilReady(ctx, server, func(ctx context.Context) error {
		d.temporal, err = client.DialContext(ctx, client.Options{HostPort: d.temporalAddr, Logger: silent})
		return err
	})
	if err == nil {
		d.console.say("Temporal: a dev server on %s (%s)", d.temporalAddr, path)
	}
	return err
}

// untilReady polls a server that starts.
func (d *demo) untilReady(ctx context.Context, server *child, ready func(context.Context) error) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if !server.alive() { // who answered then, if anybody, was a stranger
			return server.endedError()
		}
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s does not get ready: %w: %w", server.name, context.Cause(ctx), err)
		}
	}
}
