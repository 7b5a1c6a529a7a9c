package temporalx_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

var byOrder = temporalx.KeyFrom(orderID)

// keyed is a key that tells which rule has made it.
func keyed(rule string) temporalx.KeyFunc {
	return temporalx.KeyFrom(func(o Order) (string, error) { return rule + ":" + o.ID, nil })
}

// call runs activities in the SDK's test environment, each with the order o-1.
func call(t *testing.T, in *temporalx.Interceptor, names ...string) (errs []error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	seen := &attempts{}
	env := testEnv(&suite, seen, in)
	for _, name := range names {
		if !slices.Contains(names[:len(seen.all())], name) {
			register(env, name, func(context.Context, Order) (string, error) { return name, nil })
		}
		_, _ = env.ExecuteActivity(name, Order{ID: "o-1"})
		all := seen.all()
		if a := all[len(all)-1]; a.err != nil {
			errs = append(errs, a.err)
		}
	}
	return errs
}

func TestRules_TheFirstThatIsForTheTypeCounts(t *testing.T) {
	t.Parallel()
	refunds := func(name string) bool { return strings.HasSuffix(name, "Refund") }
	rules := []temporalx.Rule{
		{Activity: "ChargeCard", Key: keyed("exact")},
		{Match: refunds, Key: keyed("match")},
		{Prefix: "ChargeCard", Key: keyed("longer prefix")},
		{Prefix: "Charge", Key: keyed("prefix")},
		{Prefix: "Pay", Operation: "payment", Key: keyed("shared")},
		{Activity: "Send Mail/now", Operation: "mail", Key: keyed("renamed")},
	}
	for activity, want := range map[string]guard.Key{
		"ChargeCard":    {Operation: "ChargeCard", Name: "exact:o-1"},
		"ChargeCards":   {Operation: "ChargeCards", Name: "longer prefix:o-1"},
		"ChargeRefund":  {Operation: "ChargeRefund", Name: "match:o-1"},
		"ChargeAccount": {Operation: "ChargeAccount", Name: "prefix:o-1"},
		"Pay/Now":       {Operation: "payment", Name: "Pay%2FNow/shared:o-1"},
		"Send Mail/now": {Operation: "mail", Name: "renamed:o-1"},
		"Mail":          {},
		"ChargeTwice":   {}, // excluded
		"charge":        {}, // types have a case
	} {
		t.Run(activity, func(t *testing.T) {
			t.Parallel()
			spy := &spyStore{Store: guard.NewMemoryStore()}
			in := guarded(t, setup{store: spy, rules: rules, exclude: []string{"ChargeTwice"}})
			if errs := call(t, in, activity); errs != nil {
				t.Fatal(errs)
			}
			var got guard.Key
			if asked := spy.reserved(); len(asked) > 0 {
				got = asked[0]
			}
			if got.Operation != want.Operation || got.Name != want.Name {
				t.Errorf("key %v, want %v", got, want)
			}
		})
	}
}

func TestRules_ExcludeIsForInterceptorsWithoutRulesToo(t *testing.T) {
	t.Parallel()
	spy := &spyStore{Store: guard.NewMemoryStore()}
	// The SDK's own two, by which it makes sessions, are never guarded.
	names := []string{"Charge", "Mail", "internalSessionCreationActivity", "internalSessionCompletionActivity"}
	if errs := call(t, guarded(t, setup{store: spy, exclude: []string{"Mail"}}), names...); errs != nil {
		t.Fatal(errs)
	}
	if asked := spy.reserved(); len(asked) != 1 || asked[0].Operation != "Charge" {
		t.Errorf("reserved %v, want Charge alone", asked)
	}
}

func TestRules_OptionsAreThoseOfTheRule(t *testing.T) {
	t.Parallel()
	spy := &spyStore{Store: guard.NewMemoryStore(), fail: errors.New("no route to the store")}
	in := guarded(t, setup{store: spy, rules: []temporalx.Rule{
		{Activity: "ChargeCard", Options: []guard.OperationOption{guard.OnStorageError(guard.FailClosed)}},
		{Prefix: "Charge"},
	}})
	if errs := call(t, in, "ChargeAccount"); errs != nil {
		t.Errorf("by the prefix: %v, want it to fail open", errs)
	}
	if errs := call(t, in, "ChargeCard"); len(errs) != 1 || !errors.Is(errs[0], guard.ErrStorage) {
		t.Errorf("by its name: %v, want it to fail closed", errs)
	}
}

func TestRules_AKeyOfASharedOperationIsAsLongAsAnyOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key  string
		fine bool
	}{
		"255 bytes":                       {strings.Repeat("k", 255), true},
		"256 bytes":                       {strings.Repeat("k", 256), false},
		"empty":                           {"", false},
		"a control character, and length": {strings.Repeat("k", 250) + "\n", false},
		"no UTF-8, and length":            {strings.Repeat("k", 250) + "\xff", false},
	} {
		for _, operation := range []string{"", "payment"} {
			t.Run(fmt.Sprintf("%s, operation %q", name, operation), func(t *testing.T) {
				t.Parallel()
				in := guarded(t, setup{rules: []temporalx.Rule{{
					Prefix: "Charge", Operation: operation,
					Key: temporalx.KeyFrom(func(Order) (string, error) { return test.key, nil }),
				}}})
				errs := call(t, in, "ChargeCard")
				if fine := len(errs) == 0; fine != test.fine {
					t.Errorf("%v", errs)
				}
				if !test.fine && !errors.Is(errors.Join(errs...), guard.ErrInvalidKey) {
					t.Errorf("%v, want an invalid key", errs)
				}
			})
		}
	}
}

func TestMaxOperations_OneMoreFailsThatActivityAlone(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]temporalx.Rule{
		"no rules": nil,
		"a prefix": {{Prefix: "Type"}, {Activity: "exact"}, {Prefix: "shared", Operation: "shared"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := guarded(t, setup{rules: rules, limit: 2})
			errs := call(t, in, "Type1", "Type2", "Type3", "Type3", "Type1")
			if len(errs) != 2 {
				t.Fatalf("errors %v, want two of Type3", errs)
			}
			for _, err := range errs {
				var app *temporal.ApplicationError
				if !errors.As(err, &app) || app.Type() != temporalx.TypeInvalidKey || !app.NonRetryable() ||
					!strings.Contains(err.Error(), "Options.MaxOperations") || !strings.Contains(err.Error(), `"Type3"`) {
					t.Errorf("%v, want a final %s that says what to do", err, temporalx.TypeInvalidKey)
				}
			}
			if rules == nil {
				return
			}
			if errs := call(t, in, "exact", "shared1", "shared2"); errs != nil {
				t.Errorf("%v of types that do not count", errs)
			}
		})
	}
}

func TestMaxOperations_HoldsForManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	const limit, types = 3, 6
	made := &madeOperations{}
	in := guarded(t, setup{limit: limit, options: []guard.GuardOption{guard.WithObserver(made)}})
	var mu sync.Mutex
	fine := map[string]bool{}
	var calls sync.WaitGroup
	for range 4 {
		for i := range types {
			calls.Go(func() {
				name := fmt.Sprintf("Type%d", i)
				errs := call(t, in, name)
				mu.Lock()
				defer mu.Unlock()
				if known, again := fine[name]; again && known != (errs == nil) {
					t.Errorf("%s: once fine and once not: %v", name, errs)
				}
				fine[name] = errs == nil
			})
		}
	}
	calls.Wait()
	if n := made.n.Load(); n != limit {
		t.Errorf("%d operations, want %d", n, limit)
	}
}

func TestNew_SaysWhatIsWrongWithRules(t *testing.T) {
	t.Parallel()
	all := func(string) bool { return true }
	tests := map[string]struct {
		rules []temporalx.Rule
		limit int
		want  string
	}{
		"none of the three":         {rules: []temporalx.Rule{{}}, want: "rule 0: no activity: has 0 of Activity, Prefix and Match"},
		"two of the three":          {rules: []temporalx.Rule{{Activity: "A", Match: all}}, want: `rule 0: activity "A": has 2 of`},
		"all of them":               {rules: []temporalx.Rule{{Activity: "A", Prefix: "A", Match: all}}, want: "has 3 of"},
		"a narrower name later":     {rules: []temporalx.Rule{{Prefix: "Charge"}, {Activity: "ChargeCard"}}, want: `rule 1: activity "ChargeCard" has the earlier rule 0, prefix "Charge"`},
		"a narrower prefix later":   {rules: []temporalx.Rule{{Prefix: "Charge"}, {Prefix: "ChargeCard"}}, want: `rule 1: prefix "ChargeCard" has the earlier rule 0`},
		"one name twice":            {rules: []temporalx.Rule{{Activity: "A"}, {Activity: "B"}, {Activity: "A"}}, want: `rule 2: activity "A" has rule 0 already`},
		"one prefix twice":          {rules: []temporalx.Rule{{Prefix: "A"}, {Prefix: "A"}}, want: `rule 1: prefix "A" has rule 0 already`},
		"an operation of two":       {rules: []temporalx.Rule{{Activity: "A", Operation: "pay"}, {Prefix: "B", Operation: "pay"}}, want: "keys of two forms"},
		"an operation of a type":    {rules: []temporalx.Rule{{Match: all, Operation: "A"}, {Activity: "A"}}, want: "keys of two forms"},
		"an operation with a fault": {rules: []temporalx.Rule{{Prefix: "A", Operation: "a\nb"}}, want: "control character"},
		"an option with a fault":    {rules: []temporalx.Rule{{Prefix: "A", Operation: "a", Options: []guard.OperationOption{guard.WithLease(-1)}}}, want: "lease -1ns"},
		"a negative limit":          {limit: -1, want: "max operations -1: must be positive"},
	}
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := temporalx.Options{DataConverter: converter.GetDefaultDataConverter(), Rules: tt.rules, MaxOperations: tt.limit}
			if _, err := temporalx.New(g, options); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if p, err := temporalx.NewPlugin(g, options); p != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("plugin %v, error %v, want one with %q", p, err, tt.want)
			}
		})
	}
}

// inOrder is a workflow that calls activities one after the other with one order.
func inOrder(ctx workflow.Context, names []string) (receipts []Receipt, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second, RetryPolicy: retries(3),
	})
	for _, name := range names {
		var r Receipt
		if err := workflow.ExecuteActivity(ctx, name, Order{ID: "o-1"}).Get(ctx, &r); err != nil {
			return receipts, err
		}
		receipts = append(receipts, r)
	}
	return receipts, nil
}

// effectsOf runs activities of these types on the server, by new workers over one store
// for each set of rules, and counts the effects.
func effectsOf(t *testing.T, names []string, releases ...[]temporalx.Rule) int32 {
	t.Helper()
	var done effects
	store := guard.NewMemoryStore()
	for i, rules := range releases {
		b := newBench(t, setup{store: store, rules: rules})
		for _, name := range names {
			b.activity(name, func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
		}
		b.Worker.RegisterWorkflow(inOrder)
		b.start()
		called := names
		if len(releases) == len(names) {
			called = names[i : i+1]
		}
		get[[]Receipt](t, b.run(inOrder, called))
		b.Worker.Stop()
	}
	return done.n.Load()
}

func TestOperation_KeepsTheResultsOfAnActivityThatIsRenamed(t *testing.T) {
	t.Parallel()
	before := []temporalx.Rule{{Activity: "ChargeCard", Key: byOrder}}
	names := []string{"ChargeCard", "ChargeCreditCard"}
	for name, test := range map[string]struct {
		operation string
		want      int32
	}{"kept": {"ChargeCard", 1}, "lost": {"", 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := []temporalx.Rule{{Activity: "ChargeCreditCard", Operation: test.operation, Key: byOrder}}
			if n := effectsOf(t, names, before, after); n != test.want {
				t.Errorf("%d effects, want %d", n, test.want)
			}
		})
	}
	t.Run("both names at once", func(t *testing.T) {
		t.Parallel()
		both := append(before, temporalx.Rule{Activity: "ChargeCreditCard", Operation: "ChargeCard", Key: byOrder})
		if n := effectsOf(t, names, both); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

func TestOperation_OfManyTypesIsOneLabelAndAnEffectForEachType(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]temporalx.Rule{
		"prefix": {Prefix: "Charge", Operation: "payment", Key: byOrder},
		"match":  {Match: func(name string) bool { return name != "Other" }, Operation: "payment", Key: byOrder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names := []string{"ChargeCard", "ChargeAccount", "ChargeCard", "ChargeAccount"}
			spy := &spyStore{Store: guard.NewMemoryStore()}
			if errs := call(t, guarded(t, setup{store: spy, rules: []temporalx.Rule{rule}}), names...); errs != nil {
				t.Fatal(errs)
			}
			for i, key := range spy.reserved() {
				if want := names[i] + "/o-1"; key.Operation != "payment" || key.Name != want {
					t.Errorf("key %v, want payment, %s", key, want)
				}
			}
			if n := len(spy.results); n != 2 {
				t.Errorf("%d results, want 2", n)
			}
			if n := effectsOf(t, names[:2], []temporalx.Rule{rule}); n != 2 {
				t.Errorf("%d effects on the server, want 2", n)
			}
		})
	}
}

func TestResolve_OfASharedOperationTakesTheTypeAndTheWholeKey(t *testing.T) {
	t.Parallel()
	in := guarded(t, setup{rules: []temporalx.Rule{{
		Prefix: "Charge", Operation: "payment", Key: byOrder,
		Options: []guard.OperationOption{guard.ForPayments(), guard.AtMostOnce()},
	}}})
	var suite testsuite.WorkflowTestSuite
	seen := &attempts{}
	env := testEnv(&suite, seen, in)
	register(env, "ChargeCard", func(context.Context, Order) (string, error) { return "", errors.New("reset") })
	for range 2 {
		_, _ = env.ExecuteActivity("ChargeCard", Order{ID: "o-1"})
	}
	var app *temporal.ApplicationError
	var unknown temporalx.OutcomeUnknown
	if !errors.As(seen.all()[1].err, &app) {
		t.Fatal(seen.all()[1].err)
	}
	if err := app.Details(&unknown); err != nil || unknown.Operation != "ChargeCard" || unknown.Key != "ChargeCard/o-1" {
		t.Fatalf("details %+v, error %v", unknown, err)
	}
	err := in.Resolve(t.Context(), unknown.Operation, unknown.Key, guard.Resolution[any]{
		Fence: unknown.Fence, As: guard.StatusCompleted, Value: "found",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if value, err := env.ExecuteActivity("ChargeCard", Order{ID: "o-1"}); err != nil || value.Get(&got) != nil || got != "found" {
		t.Errorf("%q, error %v, want what was resolved", got, err)
	}
}
