// Serve keeps a guard busy for as long as it is let: a small world of payments under steady load, on a
// Temporal server and a Redis, with duplicates on purpose and faults now and then. It shows its metrics
// and its leases over HTTP, for the boards and alerts of the folder dashboards.
//
//	serve [flags]      start it; -help lists the flags
//	serve worker ...   a worker process that the fault kill starts, and kills
//	serve healthy URL  ask a serve that runs whether it is well: exit code 0 or 1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/onceguard/onceguard/examples/internal/stage"
)

type options struct {
	addr, temporal, redis string
	rate                  float64
	faults                []string
	every, runFor, lease  time.Duration
	seed                  uint64
	otlp, traceURL        string
	sdkMetrics, logs      bool
}

func main() {
	logging.Disable() // the Redis client writes a line for each dial that fails; they are counted as storage errors
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		stage.MainOfTwo("serve", nil, runDoomed)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "healthy" {
		return askHealth(ctx, args[1])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.runFor > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.runFor)
		defer cancel()
	}
	return stage.Run(ctx, "serve", []string{"-temporal", o.temporal}, func(ctx context.Context, env *stage.Env) error {
		return serve(ctx, env, o)
	})
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	var faults string
	f.StringVar(&o.addr, "addr", "127.0.0.1:9464", "where to serve /metrics, /leases and /fault/{name}")
	f.StringVar(&o.temporal, "temporal", "", "address of a Temporal server; without one a dev server is started")
	f.StringVar(&o.redis, "redis", "", "address of a Redis; without one a redis-server is started, or an imitation if there is none")
	f.Float64Var(&o.rate, "rate", 2, "orders per second, each with about ten calls of the guard")
	f.StringVar(&faults, "faults", "all", "the faults to choose from: a comma list, all or none")
	f.DurationVar(&o.every, "every", time.Minute, "time from one fault to the next")
	f.Uint64Var(&o.seed, "seed", 1, "decides the order of the faults and the load")
	f.DurationVar(&o.runFor, "for", 0, "how long to run; 0 is until interrupted")
	f.DurationVar(&o.lease, "lease", 3*time.Second, "the lease of all operations, between 300ms and 1m")
	f.StringVar(&o.otlp, "otlp", "", "URL of an OTLP/HTTP endpoint for traces, such as http://127.0.0.1:4318")
	f.StringVar(&o.traceURL, "trace-url", "", "address of a trace, with {trace_id}, for the links of /leases")
	f.BoolVar(&o.sdkMetrics, "metrics-sdk", true, "show the metrics of the Temporal SDK too")
	f.BoolVar(&o.logs, "logs", false, "write the log lines of the guard to standard error, as JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.faults, err = choose(faults); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q: there is nothing but flags", f.Arg(0))
	case o.rate <= 0 || o.rate > 1000:
		return o, fmt.Errorf("-rate=%v: more than 0, at most 1000", o.rate)
	case o.every <= 0 || o.runFor < 0:
		return o, errors.New("-every and -for: no negative times, and -every is not 0")
	case o.lease < 300*time.Millisecond || o.lease > time.Minute:
		return o, fmt.Errorf("-lease=%v: between 300ms and 1m", o.lease)
	}
	return o, nil
}

// choose reads the list of faults.
func choose(list string) ([]string, error) {
	switch list {
	case "all":
		return faultNames(), nil
	case "none", "":
		return nil, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(faultNames(), name) {
			return nil, fmt.Errorf("-faults: no %q; there are %s", name, strings.Join(faultNames(), ", "))
		}
	}
	return names, nil
}

func askHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody) //nolint:gosec // whoever starts the program chooses it
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
