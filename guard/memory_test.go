package guard_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func TestMemoryStore_ExpiredRecordsLeaveByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, _ := newOp[int](t, store, guard.WithRetention(time.Minute))
		for i := range 1000 {
			if _, err := op.Do(t.Context(), strconv.Itoa(i), new(counter).act); err != nil {
				t.Fatal(err)
			}
		}
		if n := store.Len(); n != 1000 {
			t.Errorf("%d records, want 1000", n)
		}
		time.Sleep(2 * time.Minute)
		if got, err := op.Do(t.Context(), "7", func(context.Context) (int, error) { return -1, nil }); got != -1 || err != nil {
			t.Errorf("got %d, %v: an expired record was found", got, err)
		}
		for i := range 100 { // a few calls drop what is left, none of them all
			if _, err := op.Do(t.Context(), fmt.Sprintf("more %d", i), new(counter).act); err != nil {
				t.Fatal(err)
			}
		}
		if n := store.Len(); n > 102 {
			t.Errorf("%d records long after their retention, want the last 101", n)
		}
	})
}

func TestRetention_ARunAfterItsEndIsNoTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, rec := newOp[int](t, guard.NewMemoryStore(), guard.WithRetention(time.Second))
		var c counter
		for range 2 {
			if _, err := op.Do(t.Context(), "k", c.act); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second) // far less than the lease, for which the record stays
		}
		rec.wantOutcomes(t, guard.OutcomeExecuted, guard.OutcomeExecuted)
		for _, e := range rec.events {
			if e.Kind == guard.EventAcquired && e.Record.TookOver != nil {
				t.Error("a result whose retention is over was taken for a dead owner's reservation")
			}
		}
	})
}

func TestMemoryStore_TheFenceGrowsWhenTheClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := newOp[int64](t, guard.NewMemoryStore())
		var last int64
		for range 5 {
			_, err := op.Do(t.Context(), "k", func(ctx context.Context) (int64, error) {
				l, _ := guard.LeaseFromContext(ctx)
				if l.Fence() <= last {
					t.Errorf("fence %d after %d", l.Fence(), last)
				}
				last = l.Fence()
				return 0, errStoreDown // so that the key is free again, at the same moment
			})
			if err == nil {
				t.Fatal("want the action's error")
			}
		}
	})
}
