package guard_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// heldKey leaves a key held and returns its fence.
func heldKey(t *testing.T, op *guard.Operation[int], key string) int64 {
	t.Helper()
	_, _ = op.Do(t.Context(), key, func(context.Context) (int, error) { return 0, errAmbiguous })
	_, err := op.Do(t.Context(), key, new(counter).act)
	unknown, ok := errors.AsType[*guard.OutcomeUnknownError](err)
	if !ok {
		t.Fatalf("got %v, want outcome unknown", err)
	}
	return unknown.Fence
}

func remembering() []guard.OperationOption {
	return atMostOnce(guard.OnFailure(func(error, bool) guard.Disposition { return guard.Undecided }))
}

func TestResolve_SettlesAHeldKey(t *testing.T) {
	store := guard.NewMemoryStore()
	op, _ := newOp[int](t, store, remembering()...)
	for key, r := range map[string]guard.Resolution[int]{
		"completed": {As: guard.StatusCompleted, Value: 42, By: "an operator"},
		"failed":    {As: guard.StatusFailed, Err: errDeclined},
		"released":  {As: guard.StatusReleased},
	} {
		r.Fence = heldKey(t, op, key)
		if err := op.Resolve(t.Context(), key, r); err != nil {
			t.Fatal(err)
		}
		rec := load(t, store, key).Record
		by := r.By
		if by == "" {
			by = "test/1"
		}
		if rec.Resolved == nil || rec.Resolved.Label != by || rec.Fence <= r.Fence || rec.Dispatch != nil {
			t.Errorf("%s: %+v", key, rec)
		}
	}
	if got, err := op.DoResult(t.Context(), "completed", new(counter).act); got.Value != 42 || err != nil || got.How != guard.OutcomeReplayed {
		t.Errorf("completed: %+v, %v", got, err)
	}
	if _, err := op.Do(t.Context(), "failed", new(counter).act); err == nil || !strings.Contains(err.Error(), "card declined") {
		t.Errorf("failed: %v", err)
	}
	if got, err := op.DoResult(t.Context(), "released", new(counter).act); got.Value != 1 || err != nil || got.How != guard.OutcomeExecuted {
		t.Errorf("released: %+v, %v", got, err)
	}
}

func TestResolve_OfSeveralOperatorsOneSucceeds(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore(), remembering()...)
	fence := heldKey(t, op, "k")
	var settled atomic.Int64
	var value atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			err := op.Resolve(t.Context(), "k", guard.Resolution[int]{Fence: fence, As: guard.StatusCompleted, Value: i})
			switch {
			case err == nil:
				settled.Add(1)
				value.Store(int64(i))
			case !errors.Is(err, guard.ErrNotResolved):
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := op.Do(t.Context(), "k", new(counter).act)
	if settled.Load() != 1 || err != nil || int64(got) != value.Load() {
		t.Errorf("%d settled it, %d, %v", settled.Load(), got, err)
	}
}

func TestResolve_RefusesWhatTheOperatorHasNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, _ := newOp[int](t, store, remembering()...)
		stale := heldKey(t, op, "again held")
		if err := op.Resolve(t.Context(), "again held", guard.Resolution[int]{Fence: stale, As: guard.StatusReleased}); err != nil {
			t.Fatal(err)
		}
		heldKey(t, op, "again held")
		running := abandon(t, store, "running", atMostOnce()...)
		if _, err := op.Do(t.Context(), "done", new(counter).act); err != nil {
			t.Fatal(err)
		}
		for key, c := range map[string]struct {
			fence int64
			says  string
		}{
			"again held": {stale, "look again"},
			"running":    {running.Fence, "settle it with Live"},
			"done":       {load(t, store, "done").Record.Fence, "nothing to settle"},
			"absent":     {1, "no record"},
		} {
			before := load(t, store, key)
			err := op.Resolve(t.Context(), key, guard.Resolution[int]{Fence: c.fence, As: guard.StatusCompleted, Value: 9})
			refused, ok := errors.AsType[*guard.NotResolvedError](err)
			if !ok || !errors.Is(err, guard.ErrNotResolved) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v, want %q", key, err, c.says)
			}
			if after := load(t, store, key); !sameRecord(before, after) || ok && refused.Found != before.Found {
				t.Errorf("%s: %+v became %+v", key, before, after)
			}
		}
	})
}

func TestResolve_OverALiveOwnerRevivesNothing(t *testing.T) {
	for name, as := range map[string]guard.Resolution[int]{
		"completed": {As: guard.StatusCompleted, Value: 42, Live: true},
		"released":  {As: guard.StatusReleased, Live: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := guard.NewMemoryStore()
				op, rec := newOp[int](t, store, remembering()...)
				got, err := op.DoResult(t.Context(), "k", func(ctx context.Context) (int, error) {
					as.Fence, _ = guard.FenceFromContext(ctx)
					if err := op.Resolve(context.WithoutCancel(ctx), "k", as); err != nil {
						t.Error(err)
					}
					lease, _ := guard.LeaseFromContext(ctx)
					<-lease.Lost()
					return 7, nil
				})
				if got.Value != 7 || !got.Stale || err != nil {
					t.Errorf("its owner got %+v, %v, want its own, flagged", got, err)
				}
				rec.wantReason(t, guard.EventLost, guard.ReasonTaken)
				want := 42
				if as.As == guard.StatusReleased {
					want = 1 // it runs
				}
				if got, err := op.Do(t.Context(), "k", new(counter).act); got != want || err != nil {
					t.Errorf("the next call got %d, %v, want %d", got, err, want)
				}
			})
		})
	}
}

func TestResolve_SaysWhatIsWrong(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore(), remembering()...)
	for want, r := range map[string]guard.Resolution[int]{
		"As":      {Fence: 1, As: guard.StatusHeld},
		"Fence":   {As: guard.StatusReleased},
		"Err":     {Fence: 1, As: guard.StatusFailed},
		"by whom": {Fence: 1, As: guard.StatusReleased, By: "a\nb"},
	} {
		if err := op.Resolve(t.Context(), "k", r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want word of %s", r, err, want)
		}
	}
	if err := op.Resolve(t.Context(), "", guard.Resolution[int]{Fence: 1, As: guard.StatusReleased}); !errors.Is(err, guard.ErrInvalidKey) {
		t.Errorf("got %v", err)
	}
	unencodable, _ := newOp[any](t, guard.NewMemoryStore())
	if err := unencodable.Resolve(t.Context(), "k", guard.Resolution[any]{Fence: 1, As: guard.StatusCompleted, Value: func() {}}); err == nil {
		t.Error("a value that does not encode was stored")
	}
	var nobody *guard.Operation[int]
	if err := nobody.Resolve(t.Context(), "k", guard.Resolution[int]{}); err == nil {
		t.Error("want an error of an operation that was not made")
	}
	bare, _ := newOp[int](t, struct{ guard.Store }{guard.NewMemoryStore()})
	if err := bare.Resolve(t.Context(), "k", guard.Resolution[int]{Fence: 1, As: guard.StatusReleased}); err == nil || !strings.Contains(err.Error(), "cannot resolve") {
		t.Errorf("got %v of a store without the ability", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := op.Resolve(ctx, "k", guard.Resolution[int]{Fence: 1, As: guard.StatusReleased}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v of a caller that has left", err)
	}
}

func TestResolve_AHashedKeyOfAList(t *testing.T) {
	store := guard.NewMemoryStore()
	op, _ := newOp[int](t, store, atMostOnce(guard.WithHashedKeys())...)
	heldKey(t, op, "a person")
	heldKey(t, op, "another")
	g, err := guard.New(store)
	if err != nil {
		t.Fatal(err)
	}
	for key, err := range g.List(t.Context(), guard.ListQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		r := guard.Resolution[int]{Fence: key.Record.Fence, As: guard.StatusCompleted, Value: 42, Hashed: true}
		if err := op.Resolve(t.Context(), key.Key.Name, r); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a person", "another"} {
		if got, err := op.Do(t.Context(), key, new(counter).act); got != 42 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	}
}

func TestErase_RefusesWhatNobodyKnowsTheEndOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, _ := newOp[int](t, store, remembering()...)
		heldKey(t, op, "held")
		die(t, store, "abandoned", atMostOnce()...)
		for _, key := range []string{"held", "abandoned"} {
			if err := op.Erase(t.Context(), key); !errors.Is(err, guard.ErrOutcomeUnknown) {
				t.Errorf("%s: got %v", key, err)
			}
		}
	})
}

func TestList_FindsWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, _ := newOp[int](t, store, remembering()...)
		abandon(t, store, "abandoned")
		time.Sleep(guard.DefaultLease)
		heldKey(t, op, "held")
		abandon(t, store, "long", guard.WithLease(time.Hour))
		time.Sleep(10 * time.Minute)
		abandon(t, store, "short", guard.WithLease(time.Hour))
		if _, err := op.Do(t.Context(), "done", new(counter).act); err != nil {
			t.Fatal(err)
		}
		g, err := guard.New(store)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			query guard.ListQuery
			want  map[string]guard.OpenState
		}{
			"all": {guard.ListQuery{}, map[string]guard.OpenState{
				"abandoned": guard.OpenAbandoned, "held": guard.OpenHeld, "long": guard.OpenRunning, "short": guard.OpenRunning,
			}},
			"page by page": {guard.ListQuery{PageSize: 1}, map[string]guard.OpenState{
				"abandoned": guard.OpenAbandoned, "held": guard.OpenHeld, "long": guard.OpenRunning, "short": guard.OpenRunning,
			}},
			"to be looked at": {guard.ListQuery{RunningFor: 5 * time.Minute, Operation: "payment.charge"}, map[string]guard.OpenState{
				"abandoned": guard.OpenAbandoned, "held": guard.OpenHeld, "long": guard.OpenRunning,
			}},
			"held":              {guard.ListQuery{States: []guard.OpenState{guard.OpenHeld}}, map[string]guard.OpenState{"held": guard.OpenHeld}},
			"another operation": {guard.ListQuery{Operation: "payment"}, map[string]guard.OpenState{}},
		} {
			got := map[string]guard.OpenState{}
			for key, err := range g.List(t.Context(), c.query) {
				if err != nil {
					t.Fatal(err)
				}
				got[key.Key.Name] = key.State
				if key.Key.Name == "long" && key.Age != 10*time.Minute {
					t.Errorf("%s: age %s, want 10 min", name, key.Age)
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", name, got, c.want)
			}
		}
		n := 0
		for range g.List(t.Context(), guard.ListQuery{PageSize: 1}) {
			n++
			break
		}
		if n != 1 {
			t.Error("it does not end when its reader has enough")
		}
	})
}

// brokenList is a store whose lists fail after a page.
type brokenList struct{ *guard.MemoryStore }

func (s brokenList) List(ctx context.Context, req guard.ListRequest) (guard.ListReply, error) {
	if req.Cursor != "" {
		panic("a list with a fault")
	}
	reply, err := s.MemoryStore.List(ctx, req)
	reply.Cursor = "more"
	return reply, err
}

func TestList_EndsAtTheFirstError(t *testing.T) {
	for name, c := range map[string]struct {
		left  bool // the caller
		store guard.Store
		query guard.ListQuery
		says  string
	}{
		"page size":   {false, guard.NewMemoryStore(), guard.ListQuery{PageSize: -1}, "page size"},
		"state":       {false, guard.NewMemoryStore(), guard.ListQuery{States: []guard.OpenState{"stuck"}}, "stuck"},
		"no ability":  {false, struct{ guard.Store }{guard.NewMemoryStore()}, guard.ListQuery{}, "cannot list"},
		"it has left": {true, guard.NewMemoryStore(), guard.ListQuery{}, "canceled"},
		"broken":      {false, brokenList{guard.NewMemoryStore()}, guard.ListQuery{}, "the list ends here"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := guard.New(c.store)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.left {
				cancel()
			}
			var errs []error
			for _, err := range g.List(ctx, c.query) {
				errs = append(errs, err)
			}
			if len(errs) != 1 || errs[0] == nil || !strings.Contains(errs[0].Error(), c.says) {
				t.Errorf("got %v, want one error with %q", errs, c.says)
			}
		})
	}
}

func TestResolve_ARepeatWithTheSameIDSucceeds(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore(), remembering()...)
	r := guard.Resolution[int]{Fence: heldKey(t, op, "k"), As: guard.StatusCompleted, Value: 42, ID: "reconcile/order-4711"}
	for range 2 {
		if err := op.Resolve(t.Context(), "k", r); err != nil {
			t.Error(err)
		}
	}
	r.ID = "another"
	if err := op.Resolve(t.Context(), "k", r); !errors.Is(err, guard.ErrNotResolved) {
		t.Errorf("got %v", err)
	}
	r.ID = "a\nb"
	if err := op.Resolve(t.Context(), "k", r); err == nil || errors.Is(err, guard.ErrNotResolved) {
		t.Errorf("got %v", err)
	}
}
