package guard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func TestWatch_AWaiterIsWokenByTheResultAndByARelease(t *testing.T) {
	for name, ending := range map[string]error{"result": nil, "release": errors.New("declined")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				op, _ := newOp[int](t, guard.NewMemoryStore())
				first := start(t.Context(), op, "order-1", func(context.Context) (int, error) {
					time.Sleep(7777 * time.Millisecond)
					return 1, ending
				})
				time.Sleep(time.Second)
				second := start(t.Context(), op, "order-1", func(context.Context) (int, error) { return 2, nil })
				a, b := <-first, <-second
				if late := b.at.Sub(a.at); late != 0 {
					t.Errorf("the waiter came back %s after the owner, want at the same moment", late)
				}
				if want := map[string]int{"result": 1, "release": 2}[name]; b.Value != want || b.err != nil {
					t.Errorf("got %d, %v; want %d", b.Value, b.err, want)
				}
			})
		})
	}
}

// brokenWatch is a store whose notices cannot be had.
type brokenWatch struct{ *guard.MemoryStore }

func (brokenWatch) Watch(context.Context, guard.WatchRequest) (<-chan struct{}, func(), error) {
	return nil, nil, errStoreDown
}

// deafWatch is a store that takes the watch and loses every notice.
type deafWatch struct{ *guard.MemoryStore }

func (deafWatch) Watch(context.Context, guard.WatchRequest) (<-chan struct{}, func(), error) {
	return make(chan struct{}), func() {}, nil
}

func TestWatch_WithoutNoticesThePollFindsTheResult(t *testing.T) {
	for name, store := range map[string]guard.Store{
		"watch fails": brokenWatch{guard.NewMemoryStore()}, "notices lost": deafWatch{guard.NewMemoryStore()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				op, rec := newOp[int](t, store)
				first := start(t.Context(), op, "order-1", slow(5*time.Second).act)
				time.Sleep(time.Second)
				got, err := op.Do(t.Context(), "order-1", new(counter).act)
				a := <-first
				if got != 1 || err != nil || time.Since(a.at) > time.Second {
					t.Errorf("got %d, %v, %s after the owner", got, err, time.Since(a.at))
				}
				if failed := rec.count(guard.EventStorageError); (failed == 1) != (name == "watch fails") {
					t.Errorf("%d storage errors counted", failed)
				}
			})
		})
	}
}

// closingWatch is a store that gives no more notice.
type closingWatch struct {
	*guard.MemoryStore
	loads atomic.Int64
}

func (s *closingWatch) Watch(context.Context, guard.WatchRequest) (<-chan struct{}, func(), error) {
	changed := make(chan struct{})
	close(changed)
	return changed, func() {}, nil
}

func (s *closingWatch) Load(ctx context.Context, req guard.LoadRequest) (guard.LoadReply, error) {
	s.loads.Add(1)
	return s.MemoryStore.Load(ctx, req)
}

func TestWatch_AClosedChannelMeansThePollAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &closingWatch{MemoryStore: guard.NewMemoryStore()}
		op, _ := newOp[int](t, store)
		first := start(t.Context(), op, "order-1", slow(10*time.Second).act)
		time.Sleep(time.Millisecond)
		if got, err := op.Do(t.Context(), "order-1", new(counter).act); got != 1 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		<-first
		if n := store.loads.Load(); n > 40 {
			t.Errorf("%d looks in ten seconds: the waiter spins", n)
		}
	})
}
