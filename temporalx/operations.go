package temporalx

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/onceguard/onceguard/guard"
)

// guarded is an activity type that is guarded.
type guarded struct {
	*guard.Operation[outcome]
	name   string // of the activity type
	called string // in keys: the operation of a rule for one type, else the type
	key    KeyFunc
	shares bool // the operation is also that of other types
}

// plan makes of an activity's call the key and the options of a guard's call. A key
// that the workflow has set goes before that of the rule.
func (g *guarded) plan(
	info activity.Info, args []any, set, local string, data converter.DataConverter,
) (key string, options []guard.CallOption, err error) {
	compares := true
	if key = set; key == "" {
		compares = g.key.compares(info)
		if key, err = g.key.key(activityCall{info, args, g.called, local}); err != nil {
			return "", nil, fmt.Errorf("onceguard: activity %q: %w", g.name, err)
		}
	}
	if g.shares && validKey(key) { // one that is not stays an error
		key = shorten(url.PathEscape(g.name) + "/" + key)
	}
	if !compares {
		return key, nil, nil
	}
	input, err := comparableArgs(data, args)
	if err != nil {
		return "", nil, fmt.Errorf("onceguard: activity %q: %w", g.name, err)
	}
	return key, []guard.CallOption{guard.WithInput(input)}, nil
}

// operations finds the operation of an activity type by the first rule that is for it.
type operations struct {
	guard   *guard.Guard
	codec   *payloadCodec
	rules   []Rule
	exclude []string
	limit   int

	mu   sync.RWMutex
	made map[string]*guarded // by activity type
	own  int                 // how many operations are named after their type by a rule for many
}

// newOperations makes the operations whose names the rules say. The others are made
// when their type is first seen: an interceptor is not told of registrations.
func newOperations(g *guard.Guard, codec *payloadCodec, o Options) (*operations, error) {
	ops := &operations{
		guard: g, codec: codec, rules: slices.Clone(o.Rules), exclude: slices.Clone(o.Exclude),
		limit: o.MaxOperations, made: map[string]*guarded{},
	}
	if len(ops.rules) == 0 {
		ops.rules = []Rule{anyActivity()}
	}
	var faults []error
	for i := range ops.rules {
		r := &ops.rules[i]
		switch {
		case r.Activity != "":
			_, err := ops.get(r.Activity)
			faults = append(faults, err)
		case r.shares():
			_, err := ops.newGuarded(r, r.Operation)
			faults = append(faults, err)
		}
	}
	return ops, errors.Join(faults...)
}

// get returns nil for a type that is not guarded. A type that cannot be guarded is an
// error each time: it is no reason to run unguarded.
func (o *operations) get(activityType string) (*guarded, error) {
	o.mu.RLock()
	op, ok := o.made[activityType]
	o.mu.RUnlock()
	if ok {
		return op, nil
	}
	r := o.rule(activityType)
	if r == nil {
		return nil, nil //nolint:nilnil // documented
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if op, ok := o.made[activityType]; ok {
		return op, nil
	}
	counts := r.Operation == "" && r.Activity == ""
	if counts && o.own >= o.limit {
		return nil, fmt.Errorf("onceguard: activity %q: %w: there are %d activity types with operations of their own already, "+
			"each with metrics of its own: raise Options.MaxOperations, or give the rule an Operation", activityType, guard.ErrInvalidKey, o.limit)
	}
	op, err := o.newGuarded(r, activityType)
	if err != nil {
		if counts { // the type is no name for an operation: it names the key as well
			err = fmt.Errorf("%w: %w", guard.ErrInvalidKey, err)
		}
		return nil, err
	}
	if counts {
		o.own++
	}
	o.made[activityType] = op
	return op, nil
}

// ofTheSDK finds the activities by which the SDK makes the sessions of a worker. An attempt
// of one is for the worker that it runs on, so that no other one's result will do.
func ofTheSDK(activityType string) bool {
	return activityType == "internalSessionCreationActivity" || activityType == "internalSessionCompletionActivity"
}

// rule is the first one for a type, nil if there is none.
func (o *operations) rule(activityType string) *Rule {
	if slices.Contains(o.exclude, activityType) || ofTheSDK(activityType) {
		return nil
	}
	for i := range o.rules {
		if o.rules[i].matches(activityType) {
			return &o.rules[i]
		}
	}
	return nil
}

func (o *operations) newGuarded(rule *Rule, activityType string) (*guarded, error) {
	var options []guard.OperationOption
	if !isNil(rule.Recovery) {
		options = append(options, rule.Recovery.option(o.codec))
	}
	options = append(options, rule.Options...)
	// A converter or codec that fails on a stored result is never a reason to run
	// again, so the rule has no say in that.
	options = append(options, guard.WithCodec(o.codec), guard.OnUnreadable(guard.Refuse), guard.KeepReserved(comesLater))
	op, err := guard.NewOperation[outcome](o.guard, rule.operation(activityType), options...)
	switch {
	case errors.Is(err, guard.ErrRecoveryType):
		return nil, fmt.Errorf("%w; the result type of an activity's operation is internal: "+
			"give the hook as Recovery of the rule, made by temporalx.RecoverWith, and leave WithRecovery out of its Options", err)
	case err != nil:
		return nil, err
	}
	made := &guarded{Operation: op, name: activityType, called: activityType, key: rule.Key, shares: rule.shares()}
	if rule.Activity != "" {
		made.called = rule.operation(activityType)
	}
	if isNil(made.key) {
		made.key = DefaultKey()
	}
	return made, nil
}

// isNil finds a nil value, typed or not, before the first call does.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}
