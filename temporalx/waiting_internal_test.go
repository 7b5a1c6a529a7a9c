package temporalx

import (
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/guard"
)

func TestWaiting_AShareOfTheSlotsOfAWorker(t *testing.T) {
	t.Parallel()
	fixed := func(activities, local int) worker.WorkerTuner {
		tuner, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{
			NumWorkflowSlots: 2, NumActivitySlots: activities, NumLocalActivitySlots: local, NumNexusSlots: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		return tuner
	}
	for name, test := range map[string]struct {
		set               int
		options           worker.Options
		activities, local int64
	}{
		"of the SDK's own number": {0, worker.Options{}, 500, 500},
		"of numbers that are set": {0, worker.Options{MaxConcurrentActivityExecutionSize: 5, MaxConcurrentLocalActivityExecutionSize: 8}, 2, 4},
		"none of one":             {0, worker.Options{MaxConcurrentActivityExecutionSize: 1}, 0, 500},
		"of a tuner's":            {0, worker.Options{Tuner: fixed(12, 6)}, 6, 3},
		"a tuner without numbers": {0, worker.Options{Tuner: vague{fixed(12, 6)}}, 50, 50},
		"set":                     {7, worker.Options{MaxConcurrentActivityExecutionSize: 4}, 7, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := waitersOf(test.set, &test.options)
			if a, l := w.activities.limit, w.local.limit; a != test.activities || l != test.local {
				t.Errorf("%d activities and %d local ones may wait, want %d and %d", a, l, test.activities, test.local)
			}
		})
	}
}

// vague is a tuner whose suppliers have no limit, or are none.
type vague struct{ worker.WorkerTuner }

type unlimited struct{ worker.SlotSupplier }

func (unlimited) MaxSlots() int { return 0 }

func (v vague) GetActivityTaskSlotSupplier() worker.SlotSupplier {
	return unlimited{v.WorkerTuner.GetActivityTaskSlotSupplier()}
}

func (vague) GetLocalActivitySlotSupplier() worker.SlotSupplier { return nil }

func TestWaiting_WorkersCountApart(t *testing.T) {
	t.Parallel()
	w := &Interceptor{waiters: newWaiters(1, unknownSlots, unknownSlots), maxWaiting: 1, margin: time.Second}
	first, second := w.forWorker(&worker.Options{}), w.forWorker(&worker.Options{})
	if !first.waiters.activities.take() || first.waiters.activities.take() {
		t.Error("want one place")
	}
	if !second.waiters.activities.take() || !first.waiters.local.take() {
		t.Error("another worker, and local activities, have places of their own")
	}
	first.waiters.activities.leave()
	if !first.waiters.activities.take() {
		t.Error("a place that was left is free")
	}
	if first.margin != time.Second {
		t.Errorf("the margin of a worker is %s", first.margin)
	}
}

// The SDK keeps back what comes sooner than the lesser of 0.8 of the timeout and its throttle interval.
func TestWaiting_NoHeartbeatComesSoonEnoughToBeKeptBack(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]*worker.Options{
		"not known": nil, "default": {}, "short": {MaxHeartbeatThrottleInterval: 10 * time.Second},
		"long": {MaxHeartbeatThrottleInterval: 5 * time.Minute},
	} {
		w, longest := &Interceptor{waiters: &waiters{}}, time.Duration(1<<62)
		if options != nil {
			w = w.forWorker(options)
			if longest = options.MaxHeartbeatThrottleInterval; longest == 0 {
				longest = time.Minute
			}
		}
		for _, timeout := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour} {
			first, every := w.intervals(timeout)
			if kept := min(timeout*8/10, longest); every <= kept {
				t.Errorf("%s, timeout %s: every %s, and the SDK keeps back for %s", name, timeout, every, kept)
			}
			if first <= 0 || first > timeout/2 || every > timeout*9/10 {
				t.Errorf("%s, timeout %s: first after %s, then every %s", name, timeout, first, every)
			}
		}
	}
}

func TestWaiting_ThoseWhoAreRefusedComeBackSpreadOverAFifthOfTheLease(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]time.Duration{30 * time.Second: 30 * time.Second, 0: minRetryDelay, -time.Second: minRetryDelay} {
		seen := map[time.Duration]bool{}
		for range 100 {
			var app *temporal.ApplicationError
			if err := toTemporal(&guard.InProgressError{RetryAfter: left}); !errors.As(err, &app) {
				t.Fatalf("got %v, want an application error", err)
			}
			delay := app.NextRetryDelay()
			if delay < want || delay > want+want/5 {
				t.Errorf("%s left: next in %s", left, delay)
			}
			seen[delay] = true
		}
		if len(seen) < 50 {
			t.Errorf("%s left: %d delays of 100", left, len(seen))
		}
	}
}
