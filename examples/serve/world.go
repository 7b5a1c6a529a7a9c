package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// world is all that the load and the faults need.
type world struct {
	options
	signals   *signals
	redisAddr string        // of Redis itself
	direct    *redis.Client // there too
	proxy     *proxy        // between the guard and Redis
	bank      provider.Client
	holding   chan struct{} // told by a doomed worker for each effect that it is in
	guard     *guard.Guard
	ops       operations
	plugin    *temporalx.Plugin
	temporal  client.Client
	server    string // address of Temporal
	queue     string
	off       atomic.Bool // the kill switch of opLedger
	numbers   atomic.Int64
	store     sync.RWMutex   // one fault of the store at a time, and none while another needs the store
	doomed    sync.Mutex     // one doomed worker at a time
	calls     sync.WaitGroup // what the load and the faults have started
	closers   []func()       // the last first
}

// serve runs until the context ends.
func serve(ctx context.Context, env *stage.Env, o options) (err error) {
	w := &world{options: o, server: env.Temporal, queue: env.Run, holding: make(chan struct{}, 100)}
	defer w.close()
	for _, start := range []func(context.Context) error{w.startStore, w.startBank, w.startGuard, w.startWorkers} {
		if err := start(ctx); err != nil {
			return ended(ctx, err)
		}
	}
	addr, err := w.listen(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	say("metrics, leases, faults: http://%s/", addr)
	w.calls.Go(func() { w.load(ctx) })
	w.calls.Go(func() { w.schedule(ctx) })
	<-ctx.Done()
	say("ending")
	return nil
}

// ended is no error when somebody has ended the program while it started.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (w *world) later(f func()) { w.closers = append(w.closers, f) }

func (w *world) close() {
	for _, f := range slices.Backward(w.closers) {
		f()
	}
}

func (w *world) startStore(ctx context.Context) (err error) {
	if w.signals, err = newSignals(ctx, w.options); err != nil {
		return err
	}
	w.later(w.signals.stop)
	addr, stop, err := startRedis(ctx, w.redis)
	if err != nil {
		return err
	}
	w.later(stop)
	w.redisAddr, w.direct = addr, openRedis(addr)
	w.later(func() { _ = w.direct.Close() })
	if w.proxy, err = newProxy(addr); err != nil {
		return err
	}
	w.later(w.proxy.close)
	return nil
}

// startBank starts the payment provider. A doomed worker says there that it is in an effect.
func (w *world) startBank(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("/", provider.Handler(provider.NewLedger(), provider.Options{}))
	mux.HandleFunc("POST /holding", func(http.ResponseWriter, *http.Request) {
		select {
		case w.holding <- struct{}{}:
		default: // nobody listens
		}
	})
	addr, err := w.serveHTTP(ctx, "127.0.0.1:0", mux)
	w.bank = provider.Client{URL: "http://" + addr, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}}
	w.later(w.bank.HTTP.CloseIdleConnections)
	return err
}

func (w *world) startGuard(ctx context.Context) error {
	tel, err := w.signals.telemetry()
	if err != nil {
		return err
	}
	rdb := openRedis(w.proxy.addr)
	w.later(func() { _ = rdb.Close() })
	if w.guard, err = newGuard(rdb, w.lease, "serve", tel); err != nil {
		return err
	}
	w.later(func() { //nolint:contextcheck // it is for the time after the context
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = w.guard.Drain(ctx)
	})
	if w.ops, err = newOperations(w.guard, w.lease, &w.off); err != nil {
		return err
	}
	w.plugin, err = guardActivities(w.guard, w.bank, w.lease)
	return err
}

func (w *world) startWorkers(ctx context.Context) error {
	options, err := w.signals.clientOptions(w.options, w.server)
	if err != nil {
		return err
	}
	if w.temporal, err = client.DialContext(ctx, options); err != nil {
		return err
	}
	w.later(w.temporal.Close)
	w.later(w.calls.Wait)
	stop, err := w.startWorker(ctx, w.queue)
	if err != nil {
		return err
	}
	w.later(stop) // before the wait: activities start calls
	return nil
}

// startWorker serves a task queue until stop.
func (w *world) startWorker(ctx context.Context, queue string) (stop func(), err error) {
	activities := &Activities{
		provider: w.bank,
		takes:    func(actx context.Context) error { return pause(actx, ctx.Done(), w.lease/20) },
		approve: func(token []byte) {
			w.calls.Go(func() {
				if pause(ctx, nil, w.lease/5) == nil {
					_ = w.plugin.Interceptor().CompleteActivity(ctx, w.temporal, token, true, nil)
				}
			})
		},
	}
	running := worker.New(w.temporal, queue, worker.Options{
		Plugins: []worker.Plugin{w.plugin}, DisableRegistrationAliasing: true,
	})
	running.RegisterWorkflow(Checkout)
	running.RegisterActivity(activities)
	if err := running.Start(); err != nil {
		return nil, err
	}
	return running.Stop, nil
}

var errEnding = errors.New("the program is ending")

// pause lets time pass, unless the context or the program ends.
func pause(ctx context.Context, ending <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ending:
		return errEnding
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serveHTTP serves until the world closes, and returns where.
func (w *world) serveHTTP(ctx context.Context, addr string, handler http.Handler) (at string, err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	w.later(func() { //nolint:contextcheck // it is for the time after the context
		ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
		defer cancel()
		if server.Shutdown(ctx) != nil { // a handler is still at work
			_ = server.Close()
		}
		<-served
	})
	return listener.Addr().String(), nil
}
