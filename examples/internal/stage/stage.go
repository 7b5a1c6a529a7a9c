// Package stage is what the small Temporal examples stand on: their flags, a Temporal server,
// a store for the guard, and worker processes that may be killed.
package stage

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/guard"
)

// Env is what an example runs with.
type Env struct {
	Client   client.Client
	Temporal string // address of the server
	Guard    bool   // whether the effects are guarded
	Run      string // differs in each run: for the task queue and the orders

	name, redis string
	closers     []func()
}

// Main is the main function of an example. It runs until it is done or interrupted. An error ends the
// program with 1.
func Main(name string, example func(context.Context, *Env) error) {
	run(func(ctx context.Context) error { return Run(ctx, name, os.Args[1:], example) })
}

// MainOfTwo is Main for an example whose workers are processes of their own: see [StartWorker].
func MainOfTwo[C any](name string, example func(context.Context, *Env) error, work func(context.Context, C) error) {
	if len(os.Args) < 3 || os.Args[1] != workerRole {
		Main(name, example)
		return
	}
	run(func(ctx context.Context) error {
		var config C
		if err := json.Unmarshal([]byte(os.Args[2]), &config); err != nil {
			return err
		}
		endWithParent()
		return work(ctx, config)
	})
}

func run(f func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := f(ctx)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

// Run runs an example with the flags of args.
func Run(ctx context.Context, name string, args []string, example func(context.Context, *Env) error) (err error) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	temporal := f.String("temporal", "", "address of a Temporal server; without one a dev server is started")
	redis := f.String("redis", "", "address of a Redis for the guard; without one its records are in memory")
	mode := f.String("guard", "on", "off: leave the guard out, and fail")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *mode != "on" && *mode != "off" {
		return fmt.Errorf("-guard=%s: it is on or off", *mode)
	}
	env := &Env{Temporal: *temporal, Guard: *mode == "on", Run: name + "-" + rand.Text()[:8], name: name, redis: *redis}
	defer env.close()
	if env.Temporal == "" {
		if env.Temporal, err = env.startTemporal(ctx); err != nil {
			return fmt.Errorf("start a Temporal dev server: %w", err)
		}
	}
	if env.Client, err = Connect(ctx, env.Temporal); err != nil {
		return fmt.Errorf("connect to Temporal at %s: %w", env.Temporal, err)
	}
	env.later(env.Client.Close)
	return example(ctx, env)
}

// Store is for the guard of workers in this process: in memory, or in the Redis of the flags.
func (e *Env) Store() (guard.Store, error) {
	if e.redis == "" {
		return guard.NewMemoryStore(), nil
	}
	store, closeIt, err := OpenRedis(e.redis, e.name)
	e.later(closeIt)
	return store, err
}

// later has something done when the example is over, the last first.
func (e *Env) later(f func()) { e.closers = append(e.closers, f) }

func (e *Env) close() {
	for _, f := range slices.Backward(e.closers) {
		f()
	}
}
