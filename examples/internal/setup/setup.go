// Package setup is what the small Temporal examples have in common: their flags, the
// connection to the server, and a store for the guard.
package setup

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"

	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/examples/internal/stage"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
)

// ErrInvariant is that an effect happened more or less often than once.
var ErrInvariant = errors.New("FAILED")

// Env is what an example runs with.
type Env struct {
	Client client.Client
	Store  guard.Store
	Guard  bool   // whether the effects are guarded
	Run    string // differs in each run: for the task queue and the orders
	lines  *lines
}

// lines is where an example prints.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

// Say prints a line.
func (e Env) Say(format string, a ...any) {
	e.lines.mu.Lock()
	defer e.lines.mu.Unlock()
	_, _ = fmt.Fprintf(e.lines.out, format+"\n", a...)
}

// Main runs an example until it is done or interrupted, and ends the program: with 1 if the
// example failed.
func Main(name string, example func(context.Context, Env) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := Run(ctx, name, os.Args[1:], os.Stdout, example)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Run runs an example with the flags of args.
func Run(ctx context.Context, name string, args []string, out io.Writer, example func(context.Context, Env) error) error {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	temporal := f.String("temporal", "localhost:7233", "address of the Temporal server")
	redisAddr := f.String("redis", "", "address of a Redis server; without one the guard keeps its records in memory")
	mode := f.String("guard", "on", "on, or off to see what happens without it")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *mode != "on" && *mode != "off" {
		return fmt.Errorf("-guard=%s: it is on or off", *mode)
	}
	store, closeStore, err := stage.OpenStore(*redisAddr, redisx.DefaultPrefix)
	if err != nil {
		return err
	}
	defer closeStore()
	c, err := stage.Connect(ctx, *temporal)
	if err != nil {
		return fmt.Errorf("connect to Temporal at %s: %w", *temporal, err)
	}
	defer c.Close()
	return example(ctx, Env{
		Client: c, Store: store, Guard: *mode == "on", lines: &lines{out: out},
		Run: name + "-" + strings.ToLower(rand.Text()[:8]),
	})
}
