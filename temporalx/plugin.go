package temporalx

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
)

// Plugin installs the interceptor on workers, and sees what they register:
//
//	plugin, err := temporalx.NewPlugin(g, temporalx.Options{…})
//	w := worker.New(client, "payments", worker.Options{Plugins: []worker.Plugin{plugin}})
//
// When a worker starts it fails if a rule is for no activity that is registered, such
// as one whose name is misspelt: its activity would run unguarded. So it does if the type of
// [KeyFrom] or [RecoverWith] is not that of the activity. A worker that registers no
// activities, or a dynamic one, has no rule without an activity. A local activity that is not registered
// is not seen: register it where a rule is for it.
//
// It is safe for use by several workers.
type Plugin struct {
	worker.PluginBase
	interceptor *Interceptor
	rules       []Rule
	exclude     []string
	onUnmatched func(error)

	mu         sync.Mutex
	registered map[string]*registrations // by the worker's instance key
}

var _ worker.Plugin = (*Plugin)(nil)

// registrations are the activities of one worker.
type registrations struct {
	types   map[string]reflect.Type // the function by activity type
	dynamic bool                    // there is one for every type
	twice   bool                    // the worker has an interceptor of ours already
}

// NewPlugin makes a plugin. Its options and errors are those of [New].
func NewPlugin(g *guard.Guard, o Options) (*Plugin, error) {
	in, err := New(g, o)
	if err != nil {
		return nil, err
	}
	return &Plugin{
		interceptor: in, rules: slices.Clone(o.Rules), exclude: slices.Clone(o.Exclude), onUnmatched: o.OnUnmatched,
		registered: map[string]*registrations{},
	}, nil
}

// Name is "onceguard".
func (p *Plugin) Name() string { return "onceguard" }

// Interceptor is the one that the plugin installs, for [Interceptor.Resolve] and
// [Interceptor.CompleteActivity].
func (p *Plugin) Interceptor() *Interceptor { return p.interceptor }

// ConfigureWorker installs the interceptor behind those that the worker has: they see every
// attempt, also one that is replayed.
func (p *Plugin) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	if p == nil || p.interceptor == nil {
		return nil // and the worker does not start
	}
	seen := &registrations{types: map[string]reflect.Type{}, twice: slices.ContainsFunc(o.WorkerOptions.Interceptors, isOurs)}
	o.WorkerOptions.Interceptors = append(slices.Clone(o.WorkerOptions.Interceptors), interceptor.WorkerInterceptor(p.interceptor.forWorker(o.WorkerOptions)))
	p.mu.Lock()
	p.registered[o.WorkerInstanceKey] = seen
	p.mu.Unlock()
	hooks := o.WorkerRegistryOptions
	others, othersDynamic := hooks.OnRegisterActivity, hooks.OnRegisterDynamicActivity
	hooks.OnRegisterActivity = func(a any, options activity.RegisterOptions) {
		if others != nil {
			others(a, options)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		seen.add(a, options)
	}
	hooks.OnRegisterDynamicActivity = func(a any, options activity.DynamicRegisterOptions) {
		if othersDynamic != nil {
			othersDynamic(a, options)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		seen.dynamic = true
	}
	return nil
}

// StartWorker checks the rules against what is registered.
func (p *Plugin) StartWorker(
	ctx context.Context, o worker.PluginStartWorkerOptions,
	next func(context.Context, worker.PluginStartWorkerOptions) error,
) error {
	if p == nil || p.interceptor == nil {
		return errors.New("onceguard: the plugin is empty: make it with NewPlugin")
	}
	if err := p.check(o.WorkerInstanceKey); err != nil {
		return err
	}
	return next(ctx, o)
}

// StopWorker forgets the worker.
func (p *Plugin) StopWorker(
	ctx context.Context, o worker.PluginStopWorkerOptions, next func(context.Context, worker.PluginStopWorkerOptions),
) {
	p.mu.Lock()
	delete(p.registered, o.WorkerInstanceKey)
	p.mu.Unlock()
	next(ctx, o)
}

func (p *Plugin) check(instance string) error {
	p.mu.Lock()
	seen := p.registered[instance].clone()
	p.mu.Unlock()
	if seen.twice {
		return errors.New("onceguard: the worker has two of the plugins or interceptors of temporalx: " +
			"each activity would wait for itself; leave one out, of worker.Options or of the client's plugins")
	}
	unmatched, misfits := seen.check(p.rules, p.exclude)
	if unmatched != nil && p.onUnmatched != nil {
		p.onUnmatched(fmt.Errorf("onceguard: %w", unmatched))
		unmatched = nil
	}
	for name := range seen.types {
		// What would fail every call of it is to fail the start.
		if _, err := p.interceptor.operations.get(name); err != nil {
			misfits = errors.Join(misfits, err)
		}
	}
	if err := errors.Join(unmatched, misfits); err != nil {
		return fmt.Errorf("onceguard: the rules do not fit the activities of this worker: %w", err)
	}
	return nil
}

// clone is for reading without the lock. Of nil it is one without registrations.
func (r *registrations) clone() registrations {
	if r == nil {
		return registrations{}
	}
	return registrations{types: maps.Clone(r.types), dynamic: r.dynamic, twice: r.twice}
}

func isOurs(other interceptor.WorkerInterceptor) bool {
	_, ours := other.(*Interceptor)
	return ours
}

// add notes a registration, under the name or names that the SDK gives it.
func (r *registrations) add(a any, options activity.RegisterOptions) {
	t := reflect.TypeOf(a)
	switch {
	case t == nil:
	case t.Kind() == reflect.Func:
		name := options.Name
		if name == "" {
			name = functionName(a)
		}
		r.types[name] = t
	default:
		v := reflect.ValueOf(a)
		for i := range v.NumMethod() {
			if method := v.Method(i).Type(); isActivity(method) || !options.SkipInvalidStructFunctions {
				r.types[options.Name+t.Method(i).Name] = method
			}
		}
	}
}

// isActivity reports whether the SDK takes a method for an activity.
func isActivity(method reflect.Type) bool {
	n := method.NumOut()
	return (n == 1 || n == 2) && method.Out(n-1).Implements(reflect.TypeFor[error]()) &&
		(method.NumIn() == 0 || !method.In(0).Implements(reflect.TypeFor[workflow.Context]()))
}

// functionName is what the SDK calls a function: its last name.
func functionName(f any) string {
	full := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return strings.TrimSuffix(full[strings.LastIndex(full, ".")+1:], "-fm")
}

// check returns the rules that are for no activity, and those that do not fit one.
func (r registrations) check(rules []Rule, exclude []string) (unmatched, misfits error) {
	names := make([]string, 0, len(r.types))
	for name := range r.types {
		names = append(names, name)
	}
	slices.Sort(names)
	taken := map[int]bool{}
	for _, name := range names {
		i := slices.IndexFunc(rules, func(rule Rule) bool { return rule.matches(name) })
		if i < 0 || slices.Contains(exclude, name) {
			continue
		}
		taken[i] = true
		if err := fits(&rules[i], r.types[name]); err != nil {
			misfits = errors.Join(misfits, fmt.Errorf("rule %d: activity %q: %w", i, name, err))
		}
	}
	if r.dynamic || len(names) == 0 {
		return nil, misfits // any type may come, or none
	}
	for i := range rules {
		if !taken[i] {
			unmatched = errors.Join(unmatched, fmt.Errorf("rule %d: %s is for no activity that is registered, "+
				"or an earlier rule or Exclude has it; registered are %q", i, &rules[i], names))
		}
	}
	return unmatched, misfits
}

// fits reports what is wrong with a rule for an activity's function.
func fits(rule *Rule, f reflect.Type) error {
	var args []reflect.Type
	for i := range f.NumIn() {
		if t := f.In(i); i > 0 || !t.Implements(reflect.TypeFor[context.Context]()) {
			args = append(args, t)
		}
	}
	var faults []error
	if !isNil(rule.Key) {
		faults = append(faults, rule.Key.fits(args))
	}
	if !isNil(rule.Recovery) {
		var result reflect.Type
		if f.NumOut() > 1 {
			result = f.Out(0)
		}
		faults = append(faults, rule.Recovery.fits(result))
	}
	return errors.Join(faults...)
}
