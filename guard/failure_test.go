package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

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
