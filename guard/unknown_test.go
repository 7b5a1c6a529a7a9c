package guard_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

var (
	errDeclined  = errors.New("card declined")
	errAmbiguous = errors.New("connection reset after the request was sent")
)

// die is an action that ends with its owner, as a killed process does: it never
// comes back, and its renewals stop. The store must be one of its own guard.
func die(t *testing.T, store guard.Store, key string, opts ...guard.OperationOption) guard.Record {
	t.Helper()
	rec := abandon(t, store, key, opts...)
	left := load(t, store, key).Left
	time.Sleep(left)
	return rec
}

// abandon acquires a key as an operation with these options does, and leaves it.
func abandon(t *testing.T, store guard.Store, key string, opts ...guard.OperationOption) guard.Record {
	t.Helper()
	spy := &reserveSpy{Store: store}
	op, _ := newOp[int](t, spy, opts...)
	go func() {
		_, _ = op.Do(t.Context(), key, func(context.Context) (int, error) {
			runtime.Goexit()
			return 0, nil
		})
	}()
	synctest.Wait()
	if !spy.acquired {
		t.Fatal("the dying owner did not get the key")
	}
	t.Cleanup(func() { time.Sleep(2 * maxTestLease) }) // until it has given up
	return load(t, store, key).Record
}

// maxTestLease is the longest lease of an owner that dies in these tests.
const maxTestLease = time.Hour

// reserveSpy lets one reservation through, and nothing that its owner does later.
type reserveSpy struct {
	guard.Store
	acquired bool
}

func (s *reserveSpy) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	reply, err := s.Store.Reserve(ctx, req)
	s.acquired = reply.Acquired
	return reply, err
}

func (*reserveSpy) Renew(context.Context, guard.RenewRequest) (guard.RenewReply, error) {
	return guard.RenewReply{}, errStoreDown
}

func (*reserveSpy) Replace(context.Context, guard.ReplaceRequest) (guard.ReplaceReply, error) {
	return guard.ReplaceReply{}, errStoreDown
}

func (*reserveSpy) Release(context.Context, guard.ReleaseRequest) (guard.ReleaseReply, error) {
	return guard.ReleaseReply{}, errStoreDown
}

func (*reserveSpy) Hold(context.Context, guard.HoldRequest) (guard.HoldReply, error) {
	return guard.HoldReply{}, errStoreDown
}

func atMostOnce(more ...guard.OperationOption) []guard.OperationOption {
	return append([]guard.OperationOption{guard.ForPayments(), guard.AtMostOnce()}, more...)
}

func TestAtMostOnce_ADeadOwnersKeyIsHeldAndNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		dead := die(t, store, "k", atMostOnce()...)
		op, rec := newOp[int](t, store, atMostOnce()...)
		var c counter
		for range 2 {
			_, err := op.Do(t.Context(), "k", c.act)
			unknown, ok := errors.AsType[*guard.OutcomeUnknownError](err)
			if !ok || !errors.Is(err, guard.ErrOutcomeUnknown) {
				t.Fatalf("got %v, want outcome unknown", err)
			}
			if unknown.Fence != dead.Fence || unknown.Owner != "test/1" || !unknown.Since.Equal(dead.Created) ||
				unknown.TraceParent != dead.Owner.TraceParent || unknown.RetryAfter != 0 {
				t.Errorf("%+v, want the dead owner of %+v", unknown, dead)
			}
		}
		if c.count() != 0 {
			t.Error("the action ran")
		}
		rec.wantOutcomes(t, guard.OutcomeUnknown, guard.OutcomeUnknown)
		rec.wantReason(t, guard.EventHeld, guard.ReasonAbandoned) // once
		if n := rec.count(guard.EventUnknown); n != 2 {
			t.Errorf("%d events of an unknown outcome, want 2", n)
		}
		if got := load(t, store, "k").Record; got.Status != guard.StatusHeld {
			t.Errorf("the key is %s, want held", got.Status)
		}
	})
}

func TestAtMostOnce_AWaiterIsToldWhenTheOwnerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		abandon(t, store, "k", atMostOnce()...)
		op, _ := newOp[int](t, store, atMostOnce(guard.WithWaitBound(time.Hour))...)
		start := time.Now()
		var c counter
		_, err := op.Do(t.Context(), "k", c.act)
		if !errors.Is(err, guard.ErrOutcomeUnknown) || c.count() != 0 {
			t.Fatalf("got %v after %d runs", err, c.count())
		}
		if waited := time.Since(start); waited > guard.DefaultLease+time.Second {
			t.Errorf("waited %s for a lease of %s", waited, guard.DefaultLease)
		}
	})
}

func TestAtMostOnce_TheOwnerThatStoodStillSettlesItsHeldKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, atMostOnce()...)
		store.set(fails, guard.PhaseRenew) // cut off from the store
		action := func(context.Context) (int, error) {
			time.Sleep(guard.DefaultLease + time.Second)
			if _, err := op.Do(t.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrOutcomeUnknown) {
				t.Errorf("a second call got %v", err)
			}
			store.set(nil, guard.PhaseRenew)
			return 7, nil
		}
		if got, err := op.Do(t.Context(), "k", action); got != 7 || err != nil {
			t.Fatal(got, err)
		}
		if got, err := op.Do(t.Context(), "k", new(counter).act); got != 7 || err != nil {
			t.Errorf("got %d, %v: the result did not settle the held key", got, err)
		}
		rec.wantOutcomes(t, guard.OutcomeUnknown, guard.OutcomeExecuted, guard.OutcomeReplayed)
		if n := rec.count(guard.EventStale); n != 0 {
			t.Error("its result was called stale")
		}
	})
}

func TestAtMostOnce_IsBoundedByTheHoldRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		opts := atMostOnce(guard.WithHoldRetention(time.Hour), guard.WithRetention(time.Minute))
		die(t, store, "k", opts...)
		op, _ := newOp[int](t, store, opts...)
		if _, err := op.Do(t.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got, err := op.Do(t.Context(), "k", new(counter).act); got != 1 || err != nil {
			t.Errorf("got %d, %v after the hold", got, err)
		}
	})
}

func TestHeld_AnotherInputIsAMismatchAlsoPastTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := guard.NewMemoryStore()
		op, _ := newOp[int](t, store, atMostOnce()...)
		fail := func(context.Context) (int, error) { return 0, errAmbiguous }
		if _, err := op.Do(t.Context(), "k", fail, guard.WithInput("ten euros")); !errors.Is(err, errAmbiguous) {
			t.Fatal(err)
		}
		if _, err := op.Do(t.Context(), "k", fail, guard.WithInput("twelve")); !errors.Is(err, guard.ErrMismatch) {
			t.Errorf("got %v, want a mismatch", err)
		}
		if _, err := op.Do(t.Context(), "k", fail, guard.WithInput("ten euros")); !errors.Is(err, guard.ErrOutcomeUnknown) {
			t.Errorf("got %v, want outcome unknown", err)
		}
	})
}

// TestDispatched_NeverEndsInARelease: what ends a dispatched run without an answer
// holds the key.
func TestDispatched_NeverEndsInARelease(t *testing.T) {
	for name, c := range map[string]struct {
		act    func(context.Context) (any, error)
		reason string
	}{
		"error":  {func(context.Context) (any, error) { return nil, errAmbiguous }, guard.ReasonDispatched},
		"panic":  {func(context.Context) (any, error) { panic("boom") }, guard.ReasonUnwound},
		"goexit": {func(context.Context) (any, error) { runtime.Goexit(); return nil, nil }, guard.ReasonUnwound},
		"canceled": {func(ctx context.Context) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, guard.ReasonDispatched},
		"result that does not encode": {func(context.Context) (any, error) { return func() {}, nil }, guard.ReasonUnstored},
		"result that is too large": {func(context.Context) (any, error) {
			return strings.Repeat("x", 2<<20), nil
		}, guard.ReasonUnstored},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := guard.NewMemoryStore()
				op, rec := newOp[any](t, store, atMostOnce()...)
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					_, _ = op.Do(ctx, "k", c.act)
				}()
				<-done
				rec.wantReason(t, guard.EventHeld, c.reason)
				got := load(t, store, "k").Record
				if got.Status != guard.StatusHeld || got.Dispatch == nil || got.Dispatch.Owner != got.Owner {
					t.Errorf("the key is %s by %+v, want held by its own dispatch", got.Status, got.Dispatch)
				}
				_, err := op.Do(t.Context(), "k", func(context.Context) (any, error) { return 1, nil })
				if !errors.Is(err, guard.ErrOutcomeUnknown) {
					t.Errorf("the next call got %v", err)
				}
			})
		})
	}
}

func TestOnFailure_SaysWhatBecomesOfTheKey(t *testing.T) {
	policy := func(err error, _ bool) guard.Disposition {
		switch {
		case errors.Is(err, errDeclined):
			return guard.Remember
		case errors.Is(err, errAmbiguous):
			return guard.Hold
		case errors.Is(err, context.Canceled):
			panic("a policy with a fault")
		default:
			return guard.Release
		}
	}
	for name, c := range map[string]struct {
		err  error
		opts []guard.OperationOption
		want guard.Status
	}{
		"a definite failure is remembered":        {errDeclined, nil, guard.StatusFailed},
		"an unknown outcome is held":              {errAmbiguous, nil, guard.StatusHeld},
		"nothing happened":                        {errStoreDown, nil, guard.StatusReleased},
		"nothing happened, dispatched":            {errStoreDown, atMostOnce(), guard.StatusReleased},
		"a policy that panics":                    {context.Canceled, nil, guard.StatusReleased},
		"a policy that panics after the dispatch": {context.Canceled, atMostOnce(), guard.StatusHeld},
	} {
		t.Run(name, func(t *testing.T) {
			store := guard.NewMemoryStore()
			op, rec := newOp[int](t, store, append(c.opts, guard.OnFailure(policy))...)
			_, err := op.Do(t.Context(), "k", func(context.Context) (int, error) { return 0, c.err })
			if err != c.err { //nolint:errorlint // it must be the very same
				t.Errorf("got %v, want the action's own %v", err, c.err)
			}
			if got := load(t, store, "k").Record.Status; got != c.want {
				t.Errorf("the key is %s, want %s", got, c.want)
			}
			rec.wantOutcomes(t, guard.OutcomeFailed)
		})
	}
}

func TestOnFailure_LearnsWhetherItWasDispatched(t *testing.T) {
	for name, c := range map[string]struct {
		opts []guard.OperationOption
		mark bool
		want bool
	}{
		"an operation that dispatches nothing":  {nil, false, false},
		"from the reservation on":               {atMostOnce(), false, true},
		"an action that has not marked":         {atMostOnce(guard.MarkDispatch()), false, false},
		"an action that has marked its request": {atMostOnce(guard.MarkDispatch()), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var got bool
			policy := func(_ error, dispatched bool) guard.Disposition {
				got = dispatched
				return guard.Undecided
			}
			op, _ := newOp[int](t, guard.NewMemoryStore(), append(c.opts, guard.OnFailure(policy))...)
			_, _ = op.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
				if c.mark {
					if err := guard.Dispatched(ctx); err != nil {
						t.Error(err)
					}
				}
				return 0, errAmbiguous
			})
			if got != c.want {
				t.Errorf("dispatched %t, want %t", got, c.want)
			}
		})
	}
}

// TestCase_R6_ACancelAfterTheDispatchIsAsThePolicySays: before the dispatch it
// releases.
func TestCase_R6_ACancelAfterTheDispatchIsAsThePolicySays(t *testing.T) {
	for name, c := range map[string]struct {
		mark   bool
		policy guard.Disposition
		want   guard.Status
	}{
		"before the dispatch":                        {false, guard.Undecided, guard.StatusReleased},
		"after it, the policy does not know":         {true, guard.Undecided, guard.StatusHeld},
		"after it, the policy knows nothing happens": {true, guard.Release, guard.StatusReleased},
		"after it, the policy holds":                 {true, guard.Hold, guard.StatusHeld},
	} {
		t.Run(name, func(t *testing.T) {
			store := guard.NewMemoryStore()
			policy := func(err error, _ bool) guard.Disposition {
				if errors.Is(err, context.Canceled) {
					return c.policy
				}
				return guard.Undecided
			}
			op, _ := newOp[int](t, store, atMostOnce(guard.MarkDispatch(), guard.OnFailure(policy))...)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := op.Do(ctx, "k", func(ctx context.Context) (int, error) {
				if c.mark {
					if err := guard.Dispatched(ctx); err != nil {
						t.Error(err)
					}
				}
				cancel()
				return 0, ctx.Err()
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if got := load(t, store, "k").Record.Status; got != c.want {
				t.Errorf("the key is %s, want %s", got, c.want)
			}
		})
	}
}

// declinedError is an error with details of its own.
type declinedError struct{ bank string }

func (d *declinedError) Error() string     { return "declined by " + d.bank }
func (d *declinedError) ErrorKind() string { return "declined" }

// TestCase_R7_ADefiniteRefusalIsReplayed, and one that changed nothing runs again.
func TestCase_R7_ADefiniteRefusalIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errNotFound := errors.New("no such account, nothing happened")
		policy := func(err error, _ bool) guard.Disposition {
			if errors.Is(err, errNotFound) {
				return guard.Release
			}
			return guard.Remember
		}
		store := guard.NewMemoryStore()
		op, rec := newOp[int](t, store, guard.OnFailure(policy), guard.WithFailureRetention(time.Hour))
		_, err := op.Do(t.Context(), "declined", func(context.Context) (int, error) { return 0, &declinedError{"a bank"} })
		if _, ok := errors.AsType[*declinedError](err); !ok {
			t.Fatal(err)
		}
		var c counter
		at := time.Now()
		time.Sleep(time.Minute)
		_, err = op.Do(t.Context(), "declined", c.act)
		stored, ok := errors.AsType[*guard.StoredError](err)
		if !ok || stored.Kind != "declined" || stored.Message != "declined by a bank" {
			t.Errorf("got %v, want the error's kind and message", err)
		}
		remembered, ok := errors.AsType[*guard.RememberedError](err)
		if !ok || !remembered.At.Equal(at) || remembered.Fence == 0 || remembered.Operation != "payment.charge" {
			t.Errorf("got %+v, want when and of which run", remembered)
		}
		rec.wantOutcomes(t, guard.OutcomeFailed, guard.OutcomeReplayed)
		if n := rec.count(guard.EventHit); n != 1 {
			t.Errorf("%d hits, want 1", n)
		}
		time.Sleep(time.Hour)
		if _, err := op.Do(t.Context(), "declined", c.act); err != nil || c.count() != 1 {
			t.Errorf("got %v after %d runs: its retention is over", err, c.count())
		}

		if _, err := op.Do(t.Context(), "absent", func(context.Context) (int, error) { return 0, errNotFound }); !errors.Is(err, errNotFound) {
			t.Fatal(err)
		}
		if _, err := op.Do(t.Context(), "absent", c.act); err != nil {
			t.Errorf("got %v, want a run", err)
		}
	})
}

func TestRemember_NamedErrorsAreFoundByIs(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore(),
		guard.OnFailure(func(error, bool) guard.Disposition { return guard.Remember }),
		guard.WithErrorCodec(guard.NamedErrors(map[string]error{"declined": errDeclined, "unused": nil})))
	_, _ = op.Do(t.Context(), "k", func(context.Context) (int, error) {
		return 0, fmt.Errorf("order 4711: %w", errDeclined)
	})
	_, err := op.Do(t.Context(), "k", new(counter).act)
	if !errors.Is(err, errDeclined) || !strings.Contains(err.Error(), "order 4711: card declined") {
		t.Errorf("got %v", err)
	}
}

// brokenErrors is an error codec that fails.
type brokenErrors struct{ guard.ErrorCodec }

func (brokenErrors) Marshal(error) ([]byte, error) { return nil, errStoreDown }

func TestRemember_AnErrorThatDoesNotEncodeIsAsUndecided(t *testing.T) {
	remember := guard.OnFailure(func(error, bool) guard.Disposition { return guard.Remember })
	for name, c := range map[string]struct {
		opts []guard.OperationOption
		want guard.Status
	}{
		"the codec fails":                     {[]guard.OperationOption{guard.WithErrorCodec(brokenErrors{guard.NamedErrors(nil)})}, guard.StatusReleased},
		"the codec fails after the dispatch":  {atMostOnce(guard.WithErrorCodec(brokenErrors{guard.NamedErrors(nil)})), guard.StatusHeld},
		"it is too large":                     {[]guard.OperationOption{guard.WithMaxResultBytes(10)}, guard.StatusReleased},
		"it is too large, after the dispatch": {atMostOnce(guard.WithMaxResultBytes(10)), guard.StatusHeld},
	} {
		t.Run(name, func(t *testing.T) {
			store := guard.NewMemoryStore()
			op, rec := newOp[int](t, store, append(c.opts, remember)...)
			if _, err := op.Do(t.Context(), "k", func(context.Context) (int, error) { return 0, errDeclined }); !errors.Is(err, errDeclined) {
				t.Fatal(err)
			}
			if got := load(t, store, "k").Record.Status; got != c.want {
				t.Errorf("the key is %s, want %s", got, c.want)
			}
			if rec.count(guard.EventUnstored) != 1 {
				t.Error("nobody was told")
			}
		})
	}
}

func TestRemember_WhatIsEncryptedOfResultsIsOfErrors(t *testing.T) {
	store := guard.NewMemoryStore()
	op, _ := newOp[int](t, store, guard.WithCipher(reverse{}),
		guard.OnFailure(func(error, bool) guard.Disposition { return guard.Remember }))
	_, _ = op.Do(t.Context(), "k", func(context.Context) (int, error) { return 0, errDeclined })
	if rec := load(t, store, "k").Record; strings.Contains(string(rec.Result), "declined") || rec.Encoding != "error-json+reverse" {
		t.Errorf("%s: %s", rec.Encoding, rec.Result)
	}
	if _, err := op.Do(t.Context(), "k", new(counter).act); !strings.Contains(fmt.Sprint(err), "card declined") {
		t.Errorf("got %v", err)
	}
}

// reverse is a cipher for tests.
type reverse struct{}

func (reverse) Name() string { return "reverse" }
func (reverse) Encrypt(_ guard.Key, b []byte) ([]byte, error) {
	out := make([]byte, len(b))
	for i, c := range b {
		out[len(b)-1-i] = c
	}
	return out, nil
}
func (r reverse) Decrypt(k guard.Key, b []byte) ([]byte, error) { return r.Encrypt(k, b) }

func TestHold_OfAStoreThatIsDownIsTriedAgainBehindTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaultyStore()
		op, rec := newOp[int](t, store, guard.OnFailure(func(error, bool) guard.Disposition { return guard.Hold }))
		store.set(fails, phaseHold)
		if _, err := op.Do(t.Context(), "k", func(context.Context) (int, error) { return 0, errAmbiguous }); !errors.Is(err, errAmbiguous) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		store.set(nil, phaseHold)
		time.Sleep(2 * time.Second)
		if got := load(t, store, "k").Record.Status; got != guard.StatusHeld {
			t.Errorf("the key is %s, want held", got)
		}
		rec.wantReason(t, guard.EventHeld, guard.ReasonPolicy)
	})
}

// nilErrors is an error codec that decodes nothing.
type nilErrors struct{ guard.ErrorCodec }

func (nilErrors) Unmarshal([]byte, *error) error { return nil }

// renamedErrors is another codec.
type renamedErrors struct{ guard.ErrorCodec }

func (renamedErrors) Encoding() string { return "another" }

func TestRemember_AnErrorThatCannotBeReadIsUnreadable(t *testing.T) {
	remember := guard.OnFailure(func(error, bool) guard.Disposition { return guard.Remember })
	for name, codec := range map[string]guard.ErrorCodec{
		"decodes nothing": nilErrors{guard.NamedErrors(nil)}, "another codec": renamedErrors{guard.NamedErrors(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			store := guard.NewMemoryStore()
			op, _ := newOp[int](t, store, remember)
			_, _ = op.Do(t.Context(), "k", func(context.Context) (int, error) { return 0, errDeclined })
			refuses, rec := newOp[int](t, store, remember, guard.WithErrorCodec(codec), guard.OnUnreadable(guard.Refuse))
			if _, err := refuses.Do(t.Context(), "k", new(counter).act); !errors.Is(err, guard.ErrStorage) {
				t.Errorf("got %v", err)
			}
			rec.wantOutcomes(t, guard.OutcomeRejected)
			heals, _ := newOp[int](t, store, remember, guard.WithErrorCodec(codec))
			if got, err := heals.Do(t.Context(), "k", new(counter).act); got != 1 || err != nil {
				t.Errorf("%d, %v: one caller is to run and heal the key", got, err)
			}
		})
	}
}
