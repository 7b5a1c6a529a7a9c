package temporalx_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/temporalx"
)

// newPlugin makes a plugin with rules. Unmatched ones are sent to the channel if there is one.
func newPlugin(t *testing.T, s setup, unmatched chan error) *temporalx.Plugin {
	t.Helper()
	g, options := s.build(t)
	if unmatched != nil {
		options.OnUnmatched = func(err error) { unmatched <- err }
	}
	p, err := temporalx.NewPlugin(g, options)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pluginBench is a worker with plugins on a task queue of its own.
func pluginBench(t *testing.T, plugins ...worker.Plugin) *bench {
	t.Helper()
	id := t.Name() + "/" + uuid.NewString()
	b := &bench{t: t, client: realtest.SharedTemporal(t).Client(), queue: id, id: id, seen: &attempts{}}
	b.Worker = worker.New(b.client, b.queue, worker.Options{Plugins: plugins})
	return b
}

// fails wants a start that does not succeed, and all of these in its error.
func (b *bench) fails(t *testing.T, want ...string) {
	t.Helper()
	err := b.Worker.Start()
	if err == nil {
		b.Worker.Stop()
		t.Fatal("the worker started")
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q: nothing about %q", err, part)
		}
	}
}

func chargeNothing(context.Context, Order) (Receipt, error) { return Receipt{}, nil }

// Cards is a struct of activities.
type Cards struct{}

func (*Cards) Charge(context.Context, Order) (Receipt, error)  { return Receipt{}, nil }
func (*Cards) Refund(context.Context, *Order) (Receipt, error) { return Receipt{}, nil }
func (*Cards) Len() int                                        { return 0 } // the SDK skips it if asked to
func (*Cards) Workflow(workflow.Context) error                 { return nil }

func TestPlugin_GuardsTheActivitiesOfTheWorker(t *testing.T) {
	t.Parallel()
	var done effects
	plugin := newPlugin(t, setup{rules: chargeByOrder()}, nil)
	if plugin.Name() != "onceguard" || plugin.Interceptor() == nil {
		t.Errorf("name %q, interceptor %v", plugin.Name(), plugin.Interceptor())
	}
	b := pluginBench(t, plugin)
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	order := Order{ID: "o-1", Amount: 5}
	first, second := get[Receipt](t, b.run(chargeOnce, order)), get[Receipt](t, b.run(chargeOnce, order))
	if want := (Receipt{"charge-1", 5}); first != want || second != want {
		t.Errorf("first %+v, second %+v, want %+v", first, second, want)
	}
	done.want(t, 1)
}

func TestPlugin_TwoOnOneWorkerStopIt(t *testing.T) {
	t.Parallel()
	one, another := newPlugin(t, setup{}, nil), newPlugin(t, setup{}, nil)
	for name, plugins := range map[string][]worker.Plugin{"the same": {one, one}, "another": {one, another}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := pluginBench(t, plugins...)
			b.activity("Charge", chargeNothing)
			b.fails(t, "two of the plugins or interceptors", "leave one out")
		})
	}
}

func TestPlugin_AnEmptyOneStopsTheWorker(t *testing.T) {
	t.Parallel()
	for name, plugin := range map[string]*temporalx.Plugin{"zero": {}, "nil": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := pluginBench(t, plugin)
			b.activity("Charge", chargeNothing)
			b.fails(t, "make it with NewPlugin")
		})
	}
}

func TestPlugin_ARuleWithoutAnActivityStopsTheWorker(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rules   []temporalx.Rule
		exclude []string
		want    []string
	}{
		"misspelt": {
			rules: []temporalx.Rule{{Activity: "Charge"}, {Activity: "ChargeCrad"}},
			want:  []string{`rule 1: activity "ChargeCrad" is for no activity`, `["Charge" "Refund"]`},
		},
		"a prefix of none": {rules: []temporalx.Rule{{Prefix: "charge"}}, want: []string{`rule 0: prefix "charge"`}},
		"a match of none": {
			rules: []temporalx.Rule{{Match: func(string) bool { return false }}}, want: []string{"rule 0: match"},
		},
		"the earlier rules have all": {
			rules: []temporalx.Rule{{Activity: "Charge"}, {Activity: "Refund"}, {Match: func(string) bool { return true }}},
			want:  []string{"rule 2: match is for no activity that is registered, or an earlier rule"},
		},
		"excluded": {
			rules: []temporalx.Rule{{Activity: "Charge"}}, exclude: []string{"Charge"}, want: []string{"or an earlier rule or Exclude has it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := pluginBench(t, newPlugin(t, setup{rules: test.rules, exclude: test.exclude}, nil))
			b.activity("Charge", chargeNothing)
			b.activity("Refund", chargeNothing)
			b.fails(t, test.want...)
		})
	}
}

func TestPlugin_OnUnmatchedIsToldAndTheWorkerStarts(t *testing.T) {
	t.Parallel()
	told := make(chan error, 2)
	plugin := newPlugin(t, setup{rules: []temporalx.Rule{{Activity: "Charge"}, {Activity: "ChargeCrad"}}}, told)
	b := pluginBench(t, plugin)
	b.activity("Charge", chargeNothing)
	b.start()
	if err := <-told; !strings.Contains(err.Error(), `activity "ChargeCrad"`) || strings.Contains(err.Error(), "rule 0") || len(told) > 0 {
		t.Errorf("told %v, and %d times more", err, len(told))
	}

	misfit := pluginBench(t, newPlugin(t, setup{rules: []temporalx.Rule{{Activity: "Charge", Key: temporalx.KeyFrom(stringKey)}}}, told))
	misfit.activity("Charge", chargeNothing)
	misfit.fails(t, "string", "temporalx_test.Order") // that is no matter of which worker has which activities
}

func stringKey(s string) (string, error) { return s, nil }

func TestPlugin_KnowsTheNamesThatTheSDKGives(t *testing.T) {
	t.Parallel()
	var cards *Cards
	skip := activity.RegisterOptions{Name: "cards.", SkipInvalidStructFunctions: true}
	for name, test := range map[string]struct {
		register func(w worker.Worker)
		rules    []string
		not      string // a rule for it is for none
	}{
		"a function": {func(w worker.Worker) { w.RegisterActivity(chargeNothing) }, []string{"chargeNothing"}, "ChargeNothing"},
		"a method":   {func(w worker.Worker) { w.RegisterActivity(cards.Charge) }, []string{"Charge"}, "Cards.Charge"},
		"a method, named": {func(w worker.Worker) {
			w.RegisterActivityWithOptions(cards.Charge, activity.RegisterOptions{Name: "pay"})
		}, []string{"pay"}, "Charge"},
		"a struct":          {func(w worker.Worker) { w.RegisterActivityWithOptions(&Cards{}, skip) }, []string{"cards.Charge", "cards.Refund"}, "Charge"},
		"what it skips":     {func(w worker.Worker) { w.RegisterActivityWithOptions(&Cards{}, skip) }, []string{"cards.Charge"}, "cards.Len"},
		"a workflow in it":  {func(w worker.Worker) { w.RegisterActivityWithOptions(&Cards{}, skip) }, []string{"cards.Charge"}, "cards.Workflow"},
		"several, one name": {func(w worker.Worker) { w.RegisterActivity(cards.Charge); w.RegisterActivity(chargeNothing) }, []string{"Charge", "chargeNothing"}, "Refund"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rules []temporalx.Rule
			for _, name := range test.rules {
				rules = append(rules, temporalx.Rule{Activity: name})
			}
			fine := pluginBench(t, newPlugin(t, setup{rules: rules}, nil))
			test.register(fine.Worker)
			fine.start()
			misspelt := pluginBench(t, newPlugin(t, setup{rules: []temporalx.Rule{{Activity: test.not}}}, nil))
			test.register(misspelt.Worker)
			misspelt.fails(t, "is for no activity that is registered", test.rules[0])
		})
	}
}

func TestPlugin_WithADynamicActivityNoRuleIsWithoutAnActivity(t *testing.T) {
	t.Parallel()
	var done effects
	b := pluginBench(t, newPlugin(t, setup{rules: []temporalx.Rule{{Activity: "Charge", Key: byOrder}, {Activity: "Later"}}}, nil))
	b.Worker.RegisterDynamicActivity(func(_ context.Context, args converter.EncodedValues) (receipt Receipt, err error) {
		var o Order
		err = args.Get(&o)
		return done.charge(o), err
	}, activity.DynamicRegisterOptions{})
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	for range 2 {
		get[Receipt](t, b.run(chargeOnce, Order{ID: "o-1"}))
	}
	done.want(t, 1)
}

func TestPlugin_AWorkerWithoutActivitiesHasNoRuleWithoutOne(t *testing.T) {
	t.Parallel()
	b := pluginBench(t, newPlugin(t, setup{rules: chargeByOrder()}, nil))
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start() // it has the plugin for the keys that its workflows set
}

func TestPlugin_TypesThatDoNotFitStopTheWorker(t *testing.T) {
	t.Parallel()
	byPointer := temporalx.KeyFrom(func(o *Order) (string, error) { return o.ID, nil })
	byAny := temporalx.KeyFrom(func(any) (string, error) { return "k", nil })
	for name, test := range map[string]struct {
		activity any
		rule     temporalx.Rule
		want     []string // nothing: it fits
	}{
		"another argument":          {chargeNothing, temporalx.Rule{Key: temporalx.KeyFrom(stringKey)}, []string{"type string", "it is temporalx_test.Order"}},
		"a pointer for a value":     {chargeNothing, temporalx.Rule{Key: byPointer}, []string{"type *temporalx_test.Order", "it is temporalx_test.Order"}},
		"a value for a pointer":     {(*Cards)(nil).Refund, temporalx.Rule{Key: byOrder}, []string{"type temporalx_test.Order", "it is *temporalx_test.Order"}},
		"no argument":               {func(context.Context) error { return nil }, temporalx.Rule{Key: byOrder}, []string{"type temporalx_test.Order", "there is none"}},
		"another result":            {chargeNothing, temporalx.Rule{Key: byOrder, Recovery: finds("")}, []string{"results of string", "returns temporalx_test.Receipt"}},
		"a result for none":         {func(context.Context) error { return nil }, temporalx.Rule{Recovery: finds("")}, []string{"results of string", "only an error"}},
		"both":                      {chargeNothing, temporalx.Rule{Key: byPointer, Recovery: finds("")}, []string{"*temporalx_test.Order", "results of string"}},
		"fits":                      {chargeNothing, temporalx.Rule{Key: byOrder, Recovery: finds(Receipt{})}, nil},
		"fits, by pointer":          {(*Cards)(nil).Refund, temporalx.Rule{Key: byPointer}, nil},
		"fits, any argument":        {chargeNothing, temporalx.Rule{Key: byAny, Recovery: finds[any](nil)}, nil},
		"fits, without a context":   {func(Order) error { return nil }, temporalx.Rule{Key: byOrder, Recovery: finds[any](nil)}, nil},
		"fits, keys of no argument": {chargeNothing, temporalx.Rule{Key: temporalx.WorkflowKey()}, nil},
		"fits, an untyped activity": {func(any) (any, error) { return 1, nil }, temporalx.Rule{Key: byOrder, Recovery: finds(Receipt{})}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.rule.Prefix = "Pay"
			test.rule.Options = []guard.OperationOption{guard.OnStorageError(guard.FailClosed)}
			b := pluginBench(t, newPlugin(t, setup{rules: []temporalx.Rule{test.rule}}, nil))
			b.activity("PayNow", test.activity)
			if test.want == nil {
				b.start()
				return
			}
			b.fails(t, append(test.want, `rule 0: activity "PayNow"`)...)
		})
	}
}

// finds is a recovery hook of the type of its argument.
func finds[T any](v T) temporalx.Recovery {
	return temporalx.RecoverWith(func(context.Context, guard.Evidence) (T, guard.Finding, error) {
		return v, guard.Found, nil
	})
}

func TestPlugin_OfTwoWorkersKeepsTheirActivitiesApart(t *testing.T) {
	t.Parallel()
	var done effects
	plugin := newPlugin(t, setup{rules: chargeByOrder()}, nil)
	one, other, wrong := pluginBench(t, plugin), pluginBench(t, plugin), pluginBench(t, plugin)
	for _, b := range []*bench{one, other} {
		b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
		b.Worker.RegisterWorkflow(chargeOnce)
	}
	wrong.activity("Other", chargeNothing)
	wrong.fails(t, `activity "Charge"`, `["Other"]`)
	var starts sync.WaitGroup
	for _, b := range []*bench{one, other} {
		starts.Go(b.start)
	}
	starts.Wait()
	for _, b := range []*bench{one, other} {
		get[Receipt](t, b.run(chargeOnce, Order{ID: "o-1"}))
	}
	done.want(t, 1)
}

// otherPlugin is one that has callbacks of its own.
type otherPlugin struct {
	worker.PluginBase
	mu     sync.Mutex
	events []string
}

func (*otherPlugin) Name() string { return "other" }

func (p *otherPlugin) note(event string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event)
}

func (p *otherPlugin) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	hooks := o.WorkerRegistryOptions
	before, dynamicBefore := hooks.OnRegisterActivity, hooks.OnRegisterDynamicActivity
	hooks.OnRegisterActivity = func(a any, options activity.RegisterOptions) {
		p.note("activity")
		if before != nil {
			before(a, options)
		}
	}
	hooks.OnRegisterDynamicActivity = func(a any, options activity.DynamicRegisterOptions) {
		p.note("dynamic")
		if dynamicBefore != nil {
			dynamicBefore(a, options)
		}
	}
	return nil
}

func (p *otherPlugin) StartWorker(
	ctx context.Context, o worker.PluginStartWorkerOptions, next func(context.Context, worker.PluginStartWorkerOptions) error,
) error {
	p.note("start")
	return next(ctx, o)
}

func (p *otherPlugin) StopWorker(
	ctx context.Context, o worker.PluginStopWorkerOptions, next func(context.Context, worker.PluginStopWorkerOptions),
) {
	p.note("stop")
	next(ctx, o)
}

func TestPlugin_LeavesTheCallbacksOfOthersAlone(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"in front": true, "behind": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := &otherPlugin{}
			plugins := []worker.Plugin{newPlugin(t, setup{rules: chargeByOrder()}, nil), other}
			if first {
				slices.Reverse(plugins)
			}
			b := pluginBench(t, plugins...)
			b.activity("Charge", chargeNothing)
			b.Worker.RegisterDynamicActivity(func(context.Context, converter.EncodedValues) error { return nil }, activity.DynamicRegisterOptions{})
			if err := b.Worker.Start(); err != nil {
				t.Fatal(err)
			}
			b.Worker.Stop()
			if want := []string{"activity", "dynamic", "start", "stop"}; !slices.Equal(other.events, want) {
				t.Errorf("%q, want %q", other.events, want)
			}
		})
	}
}

func TestPlugin_IsGoodForTheNextWorkerAfterOneStopped(t *testing.T) {
	t.Parallel()
	plugin := newPlugin(t, setup{rules: chargeByOrder()}, nil)
	for range 2 {
		b := pluginBench(t, plugin)
		b.activity("Charge", chargeNothing)
		if err := b.Worker.Start(); err != nil {
			t.Fatal(err)
		}
		b.Worker.Stop()
		startsAgain(t, b.Worker)
	}
}

// startsAgain wants what the SDK says of a worker that has stopped.
func startsAgain(t *testing.T, w worker.Worker) {
	t.Helper()
	defer func() {
		if said := recover(); said == nil {
			t.Error("a worker that stopped started again")
		}
	}()
	if err := w.Start(); err != nil && !errors.Is(err, context.Canceled) {
		panic(err)
	}
}
