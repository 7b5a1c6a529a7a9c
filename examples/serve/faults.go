package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// fault is something that goes wrong. Moves are the series that it moves, for the README and the tests.
type fault struct {
	name, what string
	leases     float64 // how long it lasts by default, in leases; 0 if that is not for the caller to say
	moves      []string
	run        func(w *world, ctx context.Context, length time.Duration) error
}

func faults() []fault {
	return []fault{
		{"kill", "a worker process is killed in the middle of its activities", 0, []string{
			`onceguard_takeovers_total{dispatched="true"}`, `onceguard_takeovers_total{dispatched="false"}`,
			`onceguard_calls_total{outcome="recovered"}`, `onceguard_calls_total{outcome="unknown"}`,
			`onceguard_holds_total{reason="abandoned"}`,
		}, (*world).kill},
		{"doubt", "the answers to a charge and to a mail are lost", 0, []string{
			`onceguard_holds_total{reason="dispatched"}`, `onceguard_calls_total{outcome="failed"}`,
			`onceguard_calls_total{outcome="recovered"}`, `onceguard_calls_total{outcome="unknown"}`,
		}, (*world).doubt},
		{"pause", "Redis stands still for longer than a lease", 1.7, []string{
			`onceguard_storage_errors_total{class="timeout"}`, `onceguard_calls_total{outcome="rejected"}`,
			`onceguard_unguarded_total{reason="storage"}`, `onceguard_lease_renewals_total{result="error"}`,
			`onceguard_leases_lost_total`,
		}, (*world).pauseRedis},
		{"slow", "Redis answers late, and renewals land late", 4, []string{
			`onceguard_lease_remaining_ratio_bucket{le="0.4"}`,
		}, (*world).slowRedis},
		{"cut", "the connections to Redis are cut, and new ones refused", 1, []string{
			`onceguard_storage_errors_total{class="connection"}`, `onceguard_calls_total{outcome="rejected"}`,
			`onceguard_unguarded_total{reason="storage"}`, `onceguard_lease_renewals_total{result="error"}`,
			`onceguard_unstored_results_total{reason="storage"}`,
		}, (*world).cutRedis},
		{"stale", "Redis forgets a reservation, and somebody else takes the key while the owner runs", 0, []string{
			`onceguard_stale_results_total`, `onceguard_leases_lost_total`, `onceguard_lease_renewals_total{result="lost"}`,
		}, (*world).stale},
		{"evict", "Redis forgets a reservation, which its owner puts back", 0, []string{
			`onceguard_lease_renewals_total{result="restored"}`,
		}, (*world).evict},
		{"large", "results are too large to store", 0, []string{
			`onceguard_unstored_results_total{reason="too_large"}`,
		}, (*world).large},
		{"hang", "an action hangs", 23, []string{`onceguard_oldest_lease_age_seconds`, `onceguard_leases_held`}, (*world).hang},
		{"pile", "many calls wait for one key", 3, []string{
			`onceguard_waiters`, `onceguard_collisions_total`, `onceguard_hits_total`,
		}, (*world).pile},
		{"off", "the kill switch of an operation that fails closed is thrown", 2, []string{
			`onceguard_unguarded_total{reason="disabled"}`,
		}, (*world).switchOff},
		{"logs", "the log stands still while 1200 actions outlive their limit", 2, []string{
			`onceguard_log_lines_dropped_total`, `onceguard_leases_lost_total`,
		}, (*world).stallLogs},
	}
}

func faultNames() []string {
	var names []string
	for _, f := range faults() {
		names = append(names, f.name)
	}
	return names
}

func faultNamed(name string) (fault, bool) {
	for _, f := range faults() {
		if f.name == name {
			return f, true
		}
	}
	return fault{}, false
}

// schedule causes the chosen faults in an order that the seed decides, each as often as the others.
func (w *world) schedule(ctx context.Context) {
	if len(w.faults) == 0 {
		return
	}
	dice := rand.New(rand.NewPCG(w.seed, 2)) //nolint:gosec // no secret
	for {
		for _, i := range dice.Perm(len(w.faults)) {
			if pause(ctx, nil, w.every) != nil {
				return
			}
			if f, ok := faultNamed(w.faults[i]); ok {
				w.cause(ctx, f, 0)
			}
		}
	}
}

// cause begins a fault, and does not wait for its end. Length 0 is the default.
func (w *world) cause(ctx context.Context, f fault, length time.Duration) {
	if length == 0 {
		length = time.Duration(f.leases * float64(w.lease))
	}
	w.calls.Go(func() {
		begin := time.Now()
		say("fault %s: %s", f.name, f.what)
		err := f.run(w, ctx, length)
		took := time.Since(begin).Round(10 * time.Millisecond)
		if err != nil && ctx.Err() == nil {
			say("fault %s: failed after %s: %v", f.name, took, err)
			return
		}
		say("fault %s: over after %s", f.name, took)
	})
}

// during has a fault of the store for so long.
func (w *world) during(ctx context.Context, length time.Duration, begin func() (end func() error)) error {
	w.store.Lock()
	defer w.store.Unlock()
	end := begin()
	return errors.Join(pause(ctx, nil, length), end())
}

func (w *world) pauseRedis(ctx context.Context, length time.Duration) error {
	return w.during(ctx, length, w.proxy.stall)
}

// slowRedis delays a reply by little less than the time limit of a call, which is a third of the lease.
func (w *world) slowRedis(ctx context.Context, length time.Duration) error {
	limit := min(w.lease/3, time.Second)
	return w.during(ctx, length, func() func() error { return w.proxy.slow(limit * 9 / 10) })
}

func (w *world) cutRedis(ctx context.Context, length time.Duration) error {
	return w.during(ctx, length, w.proxy.cut)
}

// newKey is a key that nobody has had.
func (w *world) newKey(word string) string {
	return fmt.Sprintf("%s-%s-%d", w.queue, word, w.numbers.Add(1))
}

// Name and What are for the index page.
func (f fault) Name() string { return f.name }

// What says what happens.
func (f fault) What() string { return f.what }
