package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/examples/internal/provider"
)

type options struct {
	guard string
	redis string
	limit time.Duration
}

func parseOptions(args []string) (o options, err error) {
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.StringVar(&o.guard, "guard", "on", "off: leave the guard out of the guarded part too, which the demo must notice")
	f.StringVar(&o.redis, "redis", redisAuto, "server, embedded, or auto: a redis-server if there is one")
	f.DurationVar(&o.limit, "limit", 2*time.Minute, "give up after this long, not counting a build of the Temporal CLI")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if err := oneOf("guard", o.guard, "on", "off"); err != nil {
		return o, err
	}
	return o, oneOf("redis", o.redis, redisAuto, redisServer, redisEmbedded)
}

func oneOf(name, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("-%s=%s: must be one of %q", name, value, allowed)
}

// demo is the state of the orchestrator.
type demo struct {
	options      options
	console      *console
	family       *family
	self         string // path of this program
	temporal     client.Client
	temporalAddr string
	redisAddr    string
	provider     provider.Client
	parts        int      // played so far, for the names of their orders
	workers      int      // started so far, for their names
	closers      []func() // run at the end, last first
}

// errFailed says that an expectation of the demo failed. Which ones is printed.
var errFailed = errors.New("the demo failed")

// runDemo plays the scenarios and ends every process that it started, however
// it goes.
func runDemo(ctx context.Context, args []string) error {
	options, err := parseOptions(args)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // a reader that leaves is an error of a write, not the end of us
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	con := newConsole(os.Stdout, fail)
	d := &demo{options: options, console: con, self: self, family: &family{console: con, ended: fail}}
	defer d.close()
	return d.run(ctx)
}

func (d *demo) run(ctx context.Context) error {
	temporalPath, err := findTemporal(ctx, d.family)
	if err != nil {
		return err
	}
	late := fmt.Errorf("the demo has not ended within its limit of %s (-limit)", d.options.limit)
	ctx, cancel := context.WithTimeoutCause(ctx, d.options.limit, late)
	defer cancel()
	if err := d.startServers(ctx, temporalPath); err != nil {
		return cause(ctx, err)
	}
	report, err := d.play(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	return d.judge(report)
}

// cause prefers the reason for which the demo ends to what it led to. A client can
// see the deadline a moment before the context's own timer does.
func cause(ctx context.Context, err error) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

func (d *demo) startServers(ctx context.Context, temporalPath string) error {
	if err := d.startRedis(ctx); err != nil {
		return err
	}
	if err := d.startTemporal(ctx, temporalPath); err != nil {
		return err
	}
	return d.startProvider(ctx)
}

func (d *demo) startProvider(ctx context.Context) error {
	c, err := d.family.start(program{name: "provider", path: d.self, args: []string{"provider"}, ours: true})
	if err != nil {
		return err
	}
	url, err := c.await(ctx, wordReady)
	if err != nil {
		return err
	}
	d.provider = provider.Client{URL: url}
	d.console.say("Provider: charges a card at each call, in %s, on %s", chargeTakes, url)
	return nil
}

// close ends everything. It may take a few seconds and is not to be hurried.
func (d *demo) close() {
	if d.temporal != nil {
		d.temporal.Close()
	}
	d.family.end()
	for _, closer := range slices.Backward(d.closers) {
		closer()
	}
}
