package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/examples/internal/provider"
)

// doubt sends orders whose answers are lost: the charge is found by the hook, the mail stays unknown.
func (w *world) doubt(ctx context.Context, _ time.Duration) error {
	w.store.RLock()
	defer w.store.RUnlock()
	var runs []client.WorkflowRun
	for _, step := range []string{actCharge, actReceipt} {
		if run := w.start(ctx, provider.Order{ID: doubtful + w.newKey(step), Cents: 700}, w.queue, step); run != nil {
			runs = append(runs, run)
		}
	}
	for _, run := range runs {
		_ = run.Get(ctx, nil)
	}
	return nil
}

// forget deletes the record of a key of opLedger.
func (w *world) forget(ctx context.Context, key string) error {
	n, err := w.direct.Del(ctx, prefix+":"+opLedger+":"+key).Result()
	if err == nil && n != 1 {
		err = errors.New("there is no record to forget")
	}
	return err
}

// mid calls opLedger with an action that takes so long, and in does something in its middle.
func (w *world) mid(ctx context.Context, key string, takes time.Duration, in func() error) error {
	began := make(chan struct{}, 1)
	var calls crowd
	ended := make(chan struct{})
	calls.Go(func() {
		defer close(ended)
		_, _ = w.ops[opLedger].Do(ctx, key, func(ctx context.Context) (string, error) {
			began <- struct{}{}
			return "slow", pause(ctx, nil, takes)
		})
	})
	defer calls.Wait()
	select {
	case <-began:
		return in()
	case <-ended:
		return errors.New("the action did not begin: the store fails")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) stale(ctx context.Context, _ time.Duration) error {
	w.store.RLock()
	defer w.store.RUnlock()
	key := w.newKey("stale")
	return w.mid(ctx, key, w.lease, func() error {
		if err := w.forget(ctx, key); err != nil {
			return err
		}
		w.call(ctx, opLedger, key, 0)
		return nil
	})
}

func (w *world) evict(ctx context.Context, _ time.Duration) error {
	w.store.RLock()
	defer w.store.RUnlock()
	key := w.newKey("evict")
	return w.mid(ctx, key, w.lease, func() error { return w.forget(ctx, key) })
}

func (w *world) large(ctx context.Context, _ time.Duration) error {
	w.store.RLock()
	defer w.store.RUnlock()
	for range 3 {
		w.callFor(ctx, opReport, w.newKey("large"), large(2*resultLimit), 0)
	}
	return nil
}

func (w *world) hang(ctx context.Context, length time.Duration) error {
	w.call(ctx, opReport, w.newKey("hang"), length)
	return nil
}

func (w *world) pile(ctx context.Context, length time.Duration) error {
	const waiters = 200
	key := w.newKey("pile")
	var calls crowd
	calls.call(ctx, w, opReport, key, length, waiters)
	calls.Wait()
	return nil
}

// switchOff throws the switch. The orders meanwhile post to the ledger unguarded.
func (w *world) switchOff(ctx context.Context, length time.Duration) error {
	w.off.Store(true)
	defer w.off.Store(false)
	w.call(ctx, opLedger, w.newKey("off"), 0)
	return pause(ctx, nil, length)
}

// stallLogs loses more leases than there is room for lines about them.
func (w *world) stallLogs(ctx context.Context, length time.Duration) error {
	w.store.RLock()
	defer w.store.RUnlock()
	flowing := make(chan struct{})
	defer close(flowing)
	if !w.signals.stalled.CompareAndSwap(nil, &flowing) {
		return errors.New("it stands still already")
	}
	defer w.signals.stalled.Store(nil)
	var calls crowd
	room := make(chan struct{}, 20) // reserve at once
	for range 1200 {
		key := w.newKey("logs")
		room <- struct{}{}
		calls.Go(func() {
			begun := sync.OnceFunc(func() { <-room })
			defer begun()
			_, _ = w.ops[opExport].Do(ctx, key, func(ctx context.Context) (string, error) {
				begun()
				return "late", pause(ctx, nil, length)
			})
		})
	}
	calls.Wait()
	return nil
}
