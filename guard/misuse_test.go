package guard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// TestNewOperation_RefusesWhatWouldNotProtect: each misuse of the options for outcomes
// that nobody knows is an error that says what to change.
func TestNewOperation_RefusesWhatWouldNotProtect(t *testing.T) {
	hook := guard.WithRecovery(func(context.Context, guard.Evidence) (int, guard.Finding, error) {
		return 0, guard.CannotTell, nil
	})
	policy := guard.OnFailure(func(error, bool) guard.Disposition { return guard.Undecided })
	closed := guard.OnStorageError(guard.FailClosed)
	var nobody guard.RecoveryFunc[int]
	type opts = []guard.OperationOption
	for name, c := range map[string]struct {
		opts  opts
		store guard.Store
		want  string
	}{
		"at most once, fail open by default": {opts{guard.AtMostOnce()}, nil, "add OnStorageError(FailClosed)"},
		"a hook that fails open":             {opts{hook, guard.OnStorageError(guard.FailOpen)}, nil, "add OnStorageError(FailClosed)"},
		"marks that fail open":               {opts{guard.MarkDispatch()}, nil, "add OnStorageError(FailClosed)"},
		"payments that fail open":            {opts{guard.ForPayments(), hook, guard.OnStorageError(guard.FailOpen)}, nil, "add OnStorageError(FailClosed)"},
		"at most once without a reservation": {opts{guard.AtMostOnce(), closed, guard.OnInFlight(guard.Run)}, nil, "use Wait or Refuse"},
		"a hook without a reservation":       {opts{hook, closed, guard.OnInFlight(guard.Run)}, nil, "use Wait or Refuse"},
		"a policy without a reservation":     {opts{policy, guard.OnInFlight(guard.Run)}, nil, "use Wait or Refuse"},
		"a hook on a store that cannot hold": {opts{hook, closed}, struct{ guard.Store }{guard.NewMemoryStore()}, "guard.Holder"},
		"a policy on such a store":           {opts{policy}, struct{ guard.Store }{guard.NewMemoryStore()}, "guard.Holder"},
		"unreadable results that run":        {opts{guard.AtMostOnce(), closed, guard.OnUnreadable(guard.Run)}, nil, "use OnUnreadable(Refuse)"},
		"payments without a choice":          {opts{guard.ForPayments()}, nil, "add AtMostOnce() or, better, a recovery hook"},
		"payments that only mark":            {opts{guard.ForPayments(), guard.MarkDispatch()}, nil, "add AtMostOnce() or, better, a recovery hook"},
		"a hook of another type": {opts{closed, guard.WithRecovery(func(context.Context, guard.Evidence) (string, guard.Finding, error) {
			return "", guard.CannotTell, nil
		})}, nil, "results of string, the operation has int"},
		"a hook that is nil":            {opts{closed, guard.WithRecovery(nobody)}, nil, "WithRecovery is nil"},
		"a policy that is nil":          {opts{guard.OnFailure(nil)}, nil, "OnFailure is nil"},
		"a codec that is nil":           {opts{policy, guard.WithErrorCodec(nil)}, nil, "error codec is nil"},
		"a codec without a policy":      {opts{guard.WithErrorCodec(guard.NamedErrors(nil))}, nil, "WithErrorCodec has no meaning without OnFailure"},
		"errors kept without a policy":  {opts{guard.WithFailureRetention(time.Hour)}, nil, "WithFailureRetention has no meaning without OnFailure"},
		"holds without a hold":          {opts{guard.WithHoldRetention(time.Hour)}, nil, "WithHoldRetention has no meaning without"},
		"a settle time without a hook":  {opts{guard.AtMostOnce(), closed, guard.WithSettleTime(time.Hour)}, nil, "WithSettleTime has no meaning without WithRecovery"},
		"a time limit without a hook":   {opts{guard.AtMostOnce(), closed, guard.WithRecoveryTimeout(time.Hour)}, nil, "WithRecoveryTimeout has no meaning without WithRecovery"},
		"a hold shorter than the lease": {opts{guard.AtMostOnce(), closed, guard.WithHoldRetention(time.Second)}, nil, "hold retention 1s: less than 30s"},
		"errors kept for no time":       {opts{policy, guard.WithFailureRetention(0)}, nil, "failure retention 0s"},
		"a settle time below zero":      {opts{hook, closed, guard.WithSettleTime(-1)}, nil, "settle time -1ns"},
		"a settle time above the hold":  {opts{hook, closed, guard.WithSettleTime(31 * 24 * time.Hour)}, nil, "settle time 744h0m0s: more than"},
		"a hook that may take no time":  {opts{hook, closed, guard.WithRecoveryTimeout(0)}, nil, "recovery timeout 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.store == nil {
				c.store = guard.NewMemoryStore()
			}
			g, err := guard.New(c.store)
			if err != nil {
				t.Fatal(err)
			}
			_, err = guard.NewOperation[int](g, "payment.charge", c.opts...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

// TestForPayments_MayBeTheGuardsDefault: each operation then makes the choice.
func TestForPayments_MayBeTheGuardsDefault(t *testing.T) {
	g, err := guard.New(guard.NewMemoryStore(), guard.ForPayments(), guard.WithSettleTime(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.NewOperation[int](g, "payment.charge"); err == nil {
		t.Error("an operation that chose neither was made")
	}
	if _, err := guard.NewOperation[int](g, "payment.charge", guard.AtMostOnce()); err != nil {
		t.Error(err)
	}
}

// TestForPayments_AResultThatCannotBeReadRunsNothing: so it is with AtMostOnce alone.
func TestForPayments_AResultThatCannotBeReadRunsNothing(t *testing.T) {
	for name, opts := range map[string][]guard.OperationOption{
		"payments":     atMostOnce(),
		"at most once": {guard.AtMostOnce(), guard.OnStorageError(guard.FailClosed)},
	} {
		t.Run(name, func(t *testing.T) {
			store := guard.NewMemoryStore()
			texts, _ := newOp[string](t, store)
			if _, err := texts.Do(t.Context(), "k", func(context.Context) (string, error) { return "no number", nil }); err != nil {
				t.Fatal(err)
			}
			op, rec := newOp[int](t, store, opts...)
			var c counter
			if _, err := op.Do(t.Context(), "k", c.act); err == nil || c.count() != 0 {
				t.Errorf("got %v after %d runs", err, c.count())
			}
			rec.wantOutcomes(t, guard.OutcomeRejected)
		})
	}
}

// TestAtMostOnce_CostsNoCallOfTheStore: nor does a recovery hook that nobody needs.
func TestAtMostOnce_CostsNoCallOfTheStore(t *testing.T) {
	hook := guard.WithRecovery(func(context.Context, guard.Evidence) (int, guard.Finding, error) {
		return 0, guard.CannotTell, nil
	})
	for name, opts := range map[string][]guard.OperationOption{
		"plain": nil, "at most once": atMostOnce(), "hook": {guard.ForPayments(), hook},
	} {
		store := newFaultyStore()
		op, _ := newOp[int](t, store, opts...)
		for range 2 {
			if _, err := op.Do(t.Context(), "k", new(counter).act); err != nil {
				t.Fatal(err)
			}
		}
		calls := 0
		for _, n := range store.calls {
			calls += n
		}
		if calls != 3 {
			t.Errorf("%s: a miss and a hit took %d calls of the store %v, want 3", name, calls, store.calls)
		}
	}
}

func TestNewOperation_OneNameIsProtectedOrNot(t *testing.T) {
	g, err := guard.New(guard.NewMemoryStore(), guard.OnStorageError(guard.FailClosed))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := guard.NewOperation[int](g, "payment.charge", guard.AtMostOnce()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := guard.NewOperation[int](g, "payment.charge"); err == nil || !strings.Contains(err.Error(), "also without") {
		t.Errorf("got %v", err)
	}
}

// TestForPayments_KeepsResultsAsLongAsHeldKeys: a default of the guard is for others.
func TestForPayments_KeepsResultsAsLongAsHeldKeys(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		guard []guard.GuardOption
		opts  []guard.OperationOption
		want  time.Duration
	}{
		"by default":                       {nil, atMostOnce(), 30 * day},
		"the guard's default":              {[]guard.GuardOption{guard.WithRetention(time.Hour)}, atMostOnce(), 30 * day},
		"its own":                          {nil, atMostOnce(guard.WithRetention(7 * day)), 7 * day},
		"that of held keys":                {nil, atMostOnce(guard.WithHoldRetention(90 * day)), 90 * day},
		"both are the guard's":             {[]guard.GuardOption{guard.ForPayments(), guard.WithRetention(7 * day)}, []guard.OperationOption{guard.AtMostOnce()}, 7 * day},
		"the guard's is before the preset": {[]guard.GuardOption{guard.WithRetention(time.Hour), guard.ForPayments()}, []guard.OperationOption{guard.AtMostOnce()}, 30 * day},
		"the preset is the guard's":        {[]guard.GuardOption{guard.ForPayments()}, []guard.OperationOption{guard.AtMostOnce()}, 30 * day},
		"no payments, the guard's":         {[]guard.GuardOption{guard.WithRetention(time.Hour)}, nil, time.Hour},
		"no payments, nobody's":            {nil, nil, day},
		"the preset stands at the end":     {nil, []guard.OperationOption{guard.WithRetention(7 * day), guard.AtMostOnce(), guard.ForPayments()}, 7 * day},
	} {
		t.Run(name, func(t *testing.T) {
			store := guard.NewMemoryStore()
			g, err := guard.New(store, c.guard...)
			if err != nil {
				t.Fatal(err)
			}
			op, err := guard.NewOperation[int](g, "payment.charge", c.opts...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := op.Do(t.Context(), "k", new(counter).act); err != nil {
				t.Fatal(err)
			}
			if rec := load(t, store, "k").Record; rec.Until.Sub(rec.Updated) != c.want {
				t.Errorf("kept for %s, want %s", rec.Until.Sub(rec.Updated), c.want)
			}
		})
	}
}
