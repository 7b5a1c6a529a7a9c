package temporalx

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/onceguard/onceguard/guard"
)

// guarded is an activity type that is guarded.
type guarded struct {
	*guard.Operation[outcome]
	name string
	key  KeyFunc
}

// plan makes of an activity's call the key and the options of a guard's call.
func (g *guarded) plan(
	info activity.Info, args []any, data converter.DataConverter,
) (string, []guard.CallOption, error) {
	key, err := g.key.key(activityCall{info, args})
	if err != nil {
		return "", nil, fmt.Errorf("onceguard: activity %q: %w", g.name, err)
	}
	if !g.key.compares(info) {
		return key, nil, nil
	}
	input, err := comparableArgs(data, args)
	if err != nil {
		return "", nil, fmt.Errorf("onceguard: activity %q: %w", g.name, err)
	}
	return key, []guard.CallOption{guard.WithInput(input)}, nil
}

// operations finds the operation of an activity type.
type operations interface {
	// get returns nil for a type that is not guarded.
	get(activityType string) (*guarded, error)
}

func newOperations(g *guard.Guard, codec *payloadCodec, rules []Rule) (operations, error) {
	if len(rules) == 0 {
		return &everyActivity{guard: g, codec: codec}, nil
	}
	named := namedActivities{}
	var faults []error
	for _, rule := range rules {
		op, err := newGuarded(g, codec, rule)
		faults = append(faults, err)
		named[rule.Activity] = op
	}
	return named, errors.Join(faults...)
}

func newGuarded(g *guard.Guard, codec *payloadCodec, rule Rule) (*guarded, error) {
	var options []guard.OperationOption
	if !isNil(rule.Recovery) {
		options = append(options, rule.Recovery.option(codec))
	}
	options = append(options, rule.Options...)
	// A converter or codec that fails on a stored result is never a reason to run
	// again, so the rule has no say in that.
	options = append(options, guard.WithCodec(codec), guard.OnUnreadable(guard.Refuse), guard.KeepReserved(comesLater))
	op, err := guard.NewOperation[outcome](g, rule.Activity, options...)
	switch {
	case errors.Is(err, guard.ErrRecoveryType):
		return nil, fmt.Errorf("%w; the result type of an activity's operation is internal: "+
			"give the hook as Recovery of the rule, made by temporalx.RecoverWith, and leave WithRecovery out of its Options", err)
	case err != nil:
		return nil, err
	}
	if isNil(rule.Key) {
		rule.Key = DefaultKey()
	}
	return &guarded{Operation: op, name: rule.Activity, key: rule.Key}, nil
}

// checkRules finds what the guard cannot find in a single operation.
func checkRules(rules []Rule) error {
	var faults []error
	seen := map[string]bool{}
	for i, rule := range rules {
		if seen[rule.Activity] {
			faults = append(faults, fmt.Errorf("rule %d: activity %q has a rule already", i, rule.Activity))
		}
		seen[rule.Activity] = true
		for _, part := range []interface{ check() error }{rule.Key, rule.Recovery} {
			if isNil(part) {
				continue
			}
			if err := part.check(); err != nil {
				faults = append(faults, fmt.Errorf("rule %d: activity %q: %w", i, rule.Activity, err))
			}
		}
	}
	return errors.Join(faults...)
}

// namedActivities are those with rules.
type namedActivities map[string]*guarded

func (n namedActivities) get(activityType string) (*guarded, error) { return n[activityType], nil }

// everyActivity makes the operation of each activity type when the type is first
// seen: an interceptor is not told of registrations.
type everyActivity struct {
	guard *guard.Guard
	codec *payloadCodec
	made  sync.Map // activity type to func() (*guarded, error)
}

func (e *everyActivity) get(activityType string) (*guarded, error) {
	found, ok := e.made.Load(activityType)
	if !ok {
		found, _ = e.made.LoadOrStore(activityType, sync.OnceValues(func() (*guarded, error) {
			op, err := newGuarded(e.guard, e.codec, Rule{Activity: activityType})
			if err != nil { // the type is no name for an operation: it names the key as well
				return nil, fmt.Errorf("%w: %w", guard.ErrInvalidKey, err)
			}
			return op, nil
		}))
	}
	return found.(func() (*guarded, error))()
}

// isNil finds a nil value, typed or not, before the first call does.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}
