package guard_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
)

var errStoreDown = errors.New("store down")

// newOp makes an operation on a store, with what it observes.
func newOp[T any](tb testing.TB, store guard.Store, opts ...guard.OperationOption) (*guard.Operation[T], *recorder) {
	tb.Helper()
	rec := &recorder{}
	g, err := guard.New(store, guard.WithObserver(rec), guard.WithOwnerLabel("test/1"))
	if err != nil {
		tb.Fatalf("new guard: %v", err)
	}
	op, err := guard.NewOperation[T](g, "payment.charge", opts...)
	if err != nil {
		tb.Fatalf("new operation: %v", err)
	}
	return op, rec
}

// counter is an action that counts its runs and returns their number.
type counter struct {
	mu   sync.Mutex
	runs int
	// before is called at the start of each run, without the lock.
	before func(run int) error
}

func (c *counter) act(context.Context) (int, error) {
	c.mu.Lock()
	c.runs++
	run := c.runs
	c.mu.Unlock()
	if c.before != nil {
		if err := c.before(run); err != nil {
			return 0, err
		}
	}
	return run, nil
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs
}

// slow returns an action that takes d.
func slow(d time.Duration) *counter {
	return &counter{before: func(int) error { time.Sleep(d); return nil }}
}

// recorder is an observer that keeps what it sees.
type recorder struct {
	mu     sync.Mutex
	events []guard.Event
	phases []string // "reserve:acquired", "renew:error"
	ends   []guard.CallEnd
}

func (r *recorder) Operation(guard.OperationInfo) guard.OperationObserver { return r }

func (r *recorder) Call(ctx context.Context, _ guard.CallInfo) (context.Context, guard.CallObserver) {
	return ctx, r
}

func (r *recorder) TraceParent() string {
	return "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
}

func (r *recorder) Phase(ctx context.Context, p guard.Phase) (context.Context, guard.PhaseObserver) {
	return ctx, phaseRecorder{r, p}
}

func (r *recorder) Event(_ context.Context, e guard.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) End(e guard.CallEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, e)
}

type phaseRecorder struct {
	r     *recorder
	phase guard.Phase
}

func (p phaseRecorder) End(e guard.PhaseEnd) {
	result := e.Result
	if e.Err != nil {
		result = "error"
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.phases = append(p.r.phases, string(p.phase)+":"+result)
}

func (r *recorder) count(kind guard.EventKind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (r *recorder) phase(want string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.phases {
		if p == want {
			n++
		}
	}
	return n
}

func (r *recorder) outcomes() []guard.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []guard.Outcome
	for _, e := range r.ends {
		out = append(out, e.Outcome)
	}
	return out
}

func (r *recorder) wantOutcomes(t *testing.T, want ...guard.Outcome) {
	t.Helper()
	if got := r.outcomes(); !slices.Equal(got, want) {
		t.Errorf("outcomes %q, want %q", got, want)
	}
}

// fault changes what one store call does. It gets the real call.
type fault func(ctx context.Context, call func(context.Context) error) error

// fails does not reach the store.
func fails(context.Context, func(context.Context) error) error { return errStoreDown }

// hangs does not reach the store and ends with its context.
func hangs(ctx context.Context, _ func(context.Context) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// losesReply reaches the store and loses the answer.
func losesReply(ctx context.Context, call func(context.Context) error) error {
	_ = call(ctx)
	return errStoreDown
}

// faultyStore is a store with faults by phase.
type faultyStore struct {
	guard.Store
	mu     sync.Mutex
	faults map[guard.Phase]fault
	calls  map[guard.Phase]int
}

func newFaultyStore() *faultyStore {
	return &faultyStore{
		Store: guard.NewMemoryStore(), faults: map[guard.Phase]fault{}, calls: map[guard.Phase]int{},
	}
}

// set sets the fault of some phases; nil heals them.
func (s *faultyStore) set(f fault, phases ...guard.Phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range phases {
		s.faults[p] = f
	}
}

func (s *faultyStore) called(p guard.Phase) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[p]
}

func (s *faultyStore) through(ctx context.Context, p guard.Phase, call func(context.Context) error) error {
	s.mu.Lock()
	s.calls[p]++
	f := s.faults[p]
	s.mu.Unlock()
	if f == nil {
		return call(ctx)
	}
	return f(ctx, call)
}

func (s *faultyStore) Reserve(ctx context.Context, req guard.ReserveRequest) (reply guard.ReserveReply, err error) {
	err = s.through(ctx, guard.PhaseReserve, func(ctx context.Context) (err error) {
		reply, err = s.Store.Reserve(ctx, req)
		return err
	})
	return reply, err
}

func (s *faultyStore) Renew(ctx context.Context, req guard.RenewRequest) (reply guard.RenewReply, err error) {
	err = s.through(ctx, guard.PhaseRenew, func(ctx context.Context) (err error) {
		reply, err = s.Store.Renew(ctx, req)
		return err
	})
	return reply, err
}

func (s *faultyStore) Replace(ctx context.Context, req guard.ReplaceRequest) (reply guard.ReplaceReply, err error) {
	err = s.through(ctx, guard.PhaseReplace, func(ctx context.Context) (err error) {
		reply, err = s.Store.Replace(ctx, req)
		return err
	})
	return reply, err
}

func (s *faultyStore) Release(ctx context.Context, req guard.ReleaseRequest) (reply guard.ReleaseReply, err error) {
	err = s.through(ctx, guard.PhaseRelease, func(ctx context.Context) (err error) {
		reply, err = s.Store.Release(ctx, req)
		return err
	})
	return reply, err
}

func (s *faultyStore) Load(ctx context.Context, req guard.LoadRequest) (reply guard.LoadReply, err error) {
	err = s.through(ctx, guard.PhaseLoad, func(ctx context.Context) (err error) {
		reply, err = s.Store.Load(ctx, req)
		return err
	})
	return reply, err
}

// phaseHold names the hold for faults: to observers it is a replace.
const phaseHold guard.Phase = "hold"

func (s *faultyStore) Hold(ctx context.Context, req guard.HoldRequest) (reply guard.HoldReply, err error) {
	err = s.through(ctx, phaseHold, func(ctx context.Context) (err error) {
		reply, err = s.Store.(guard.Holder).Hold(ctx, req)
		return err
	})
	return reply, err
}

// wantReason checks the reasons of the events of a kind.
func (r *recorder) wantReason(t *testing.T, kind guard.EventKind, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, e := range r.events {
		if e.Kind == kind {
			got = append(got, e.Reason)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("reasons %q, want %q", got, want)
	}
}

// load reads the record of a key of the test operation.
func load(tb testing.TB, store guard.Store, key string) guard.LoadReply {
	tb.Helper()
	reply, err := store.Load(tb.Context(), guard.LoadRequest{
		Key: guard.Key{Operation: "payment.charge", Name: key},
	})
	if err != nil {
		tb.Fatalf("load: %v", err)
	}
	return reply
}
