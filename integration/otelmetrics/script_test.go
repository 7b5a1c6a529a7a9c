package otelmetrics

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// sick is a store whose calls do something else while it has that for them.
type sick struct {
	*guard.MemoryStore
	mu      sync.Mutex
	reserve func() error
	renew   func() error
	replace func() error
}

func (s *sick) set(reserve, renew, replace func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserve, s.renew, s.replace = reserve, renew, replace
}

// take returns what a call does, and renewals do that once.
func (s *sick) take(which *func() error) func() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := *which
	if which == &s.renew {
		s.renew = nil
	}
	if f == nil {
		f = func() error { return nil }
	}
	return f
}

func (s *sick) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	if err := s.take(&s.reserve)(); err != nil {
		return guard.ReserveReply{}, err
	}
	return s.MemoryStore.Reserve(ctx, req)
}

func (s *sick) Renew(ctx context.Context, req guard.RenewRequest) (guard.RenewReply, error) {
	if err := s.take(&s.renew)(); err != nil {
		return guard.RenewReply{}, err
	}
	return s.MemoryStore.Renew(ctx, req)
}

func (s *sick) Replace(ctx context.Context, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	if err := s.take(&s.replace)(); err != nil {
		return guard.ReplaceReply{}, err
	}
	return s.MemoryStore.Replace(ctx, req)
}

// script is a run of calls in virtual time. Two runs of it are the same to the nanosecond.
type script struct {
	t       *testing.T
	memory  *guard.MemoryStore
	sick    *sick
	pay     *guard.Operation[string]
	careful *guard.Operation[string]
	flaky   *guard.Operation[string]
}

const lease = 30 * time.Second

func newScript(t *testing.T, tel *telemetry.Telemetry) *script {
	t.Helper()
	s := &script{t: t, memory: guard.NewMemoryStore()}
	s.sick = &sick{MemoryStore: guard.NewMemoryStore()}
	s.pay = operation(t, s.memory, tel, "pay", guard.WithLease(lease), guard.WithWaitBound(2*time.Minute))
	s.careful = operation(t, s.memory, tel, "careful", guard.AtMostOnce(), guard.OnStorageError(guard.FailClosed))
	s.flaky = operation(t, s.sick, tel, "flaky", guard.WithLease(lease), guard.WithStoreTimeout(time.Second))
	return s
}

func operation(t *testing.T, store guard.Store, tel *telemetry.Telemetry, name string, opts ...guard.OperationOption) *guard.Operation[string] {
	t.Helper()
	g, err := guard.New(store, guard.WithObserver(tel))
	if err != nil {
		t.Fatal(err)
	}
	op, err := guard.NewOperation[string](g, name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// takes is an action of some length.
func takes(d time.Duration, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		time.Sleep(d)
		return "done", err
	}
}

// other reserves a key as another process, for so long.
func (s *script) other(store guard.Store, operation, key string, dispatched bool, lease time.Duration) {
	reply, err := store.Reserve(s.t.Context(), guard.ReserveRequest{
		Key: guard.Key{Operation: operation, Name: key}, Owner: guard.Owner{Token: "other", Label: "host/2"},
		Lease: lease, Retention: time.Hour, Dispatched: dispatched, HoldRetention: guard.DefaultHoldRetention,
	})
	if err != nil || !reply.Acquired {
		s.t.Errorf("reserve = %+v, %v", reply, err)
	}
}

// plain are calls that end one after the other.
func (s *script) plain() {
	ctx := s.t.Context()
	_, _ = s.pay.Do(ctx, "order-1", takes(3*time.Second, nil), guard.WithInput("a"))
	_, _ = s.pay.Do(ctx, "order-1", takes(0, nil), guard.WithInput("a"))
	_, _ = s.pay.Do(ctx, "order-1", takes(0, nil), guard.WithInput("b"))
	_, _ = s.pay.Do(ctx, "order-2", takes(40*time.Millisecond, errors.New("declined")))
	_, _ = s.pay.Do(ctx, "", takes(0, nil))
	s.other(s.memory, "pay", "order-3", false, time.Second)
	s.other(s.memory, "careful", "order-1", true, time.Second)
	time.Sleep(2 * time.Second)
	_, _ = s.pay.Do(ctx, "order-3", takes(time.Second, nil))
	_, _ = s.careful.Do(ctx, "order-1", takes(0, nil))
}

// free releases a key of flaky as its own owner would.
func (s *script) free(key string) {
	at := guard.Key{Operation: "flaky", Name: key}
	found, err := s.sick.Load(s.t.Context(), guard.LoadRequest{Key: at})
	if err != nil {
		s.t.Fatal(err)
	}
	reply, err := s.sick.Release(s.t.Context(), guard.ReleaseRequest{Key: at, Record: found.Record, Lease: lease})
	if err != nil || !reply.Released {
		s.t.Errorf("release = %+v, %v", reply, err)
	}
}

// broken are calls whose store fails, one of which loses its key to another owner.
func (s *script) broken() {
	ctx := s.t.Context()
	down := func() error { return &guard.ClassifiedError{Class: guard.ClassConnection, Err: errors.New("down")} }
	s.sick.set(down, nil, nil)
	_, _ = s.flaky.Do(ctx, "order-1", takes(time.Second, nil))
	s.sick.set(nil, nil, down)
	_, _ = s.flaky.Do(ctx, "order-2", takes(time.Second, nil))
	time.Sleep(time.Hour) // what is tried again behind the caller is over
	s.sick.set(nil, func() error {
		s.free("order-3")
		s.other(s.sick.MemoryStore, "flaky", "order-3", false, time.Hour)
		return down()
	}, nil)
	_, _ = s.flaky.Do(ctx, "order-3", takes(lease, nil))
	time.Sleep(time.Hour)
}

// held begins calls that are there for a while: one has the key and two wait for it.
func (s *script) held() {
	go func() { _, _ = s.pay.Do(s.t.Context(), "order-4", takes(65*time.Second, nil)) }()
	time.Sleep(5 * time.Second)
	for range 2 {
		go func() { _, _ = s.pay.Do(s.t.Context(), "order-4", takes(0, nil)) }()
	}
	time.Sleep(40 * time.Second)
}
