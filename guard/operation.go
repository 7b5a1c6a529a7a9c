package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Operation guards one kind of effect with results of type T. It is made once,
// at start-up, and used by many goroutines.
type Operation[T any] struct {
	op      *operation
	recover RecoveryFunc[T] // nil: no hook
}

// operation is the part of an Operation that does not depend on its type.
type operation struct {
	name     string
	guard    *Guard
	store    containedStore // abilities are those of guard.store, but for Hold
	label    string
	observer OperationObserver
	settings
}

// NewOperation makes an operation. The name is the kind of effect, such as
// "payment.charge": it is part of every record's key and a metric label, so it
// must stay the same over releases and take few values. A guard may make it more
// than once, with one result type and either with protection or without, see
// [AtMostOnce]. Every fault in the name and the options is
// reported, joined in one error.
func NewOperation[T any](g *Guard, name string, opts ...OperationOption) (*Operation[T], error) {
	op, err := g.operation(name, opts, new(T))
	if err != nil {
		return nil, fmt.Errorf("onceguard: new operation %q: %w", name, err)
	}
	made := &Operation[T]{op: op}
	if hook, ok := op.recovery.(typedRecovery[T]); ok {
		made.recover = hook.ask
	}
	return made, nil
}

func (g *Guard) operation(name string, opts []OperationOption, result any) (*operation, error) {
	if g == nil || g.store == nil {
		return nil, errors.New("guard is nil: make one with New")
	}
	op := &operation{name: name, guard: g, store: containedStore{g.store}, label: g.label, settings: g.defaults}
	var faults []error
	var own settings // what was set for this operation alone
	for i, o := range opts {
		if o == nil {
			faults = append(faults, fmt.Errorf("option %d is nil: leave it out", i))
			continue
		}
		o.applyOperation(&op.settings)
		o.applyOperation(&own)
	}
	if own.payments {
		op.retentionSet = own.retentionSet // the preset goes before the guard's default
	}
	if err := checkName(name, anOperationName); err != nil {
		faults = append(faults, fmt.Errorf("name: %w", err))
	}
	faults = append(faults, op.resolve(), own.checkUseful(op.onInFlight),
		op.checkProtection(g.store), op.checkHoldsUseful(own))
	if op.recovers() {
		faults = append(faults, op.recovery.fits(result))
	}
	if codec, ok := op.codec.(resultChecker); ok {
		faults = append(faults, codec.CheckResult(result))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if err := g.claim(name, claim{reflect.TypeOf(result).Elem(), op.protects(), op.hashKeys}); err != nil {
		return nil, err
	}
	op.observer = observeOperation(g.observer, OperationInfo{
		Name:           name,
		Store:          storeName(g.store),
		Lease:          op.lease,
		Retention:      op.retention,
		OnStorageError: op.onStorageError,
		OnInFlight:     op.onInFlight,
	})
	return op, nil
}

// usable is for what is asked of an operation beside its calls.
func (o *Operation[T]) usable(ctx context.Context) error {
	if o == nil || o.op == nil || ctx == nil {
		return errors.New("onceguard: the operation (made by NewOperation) and the context must not be nil")
	}
	return nil
}

func (op *operation) callInfo(key Key) CallInfo {
	return CallInfo{Key: key, OwnerLabel: op.label, keyHash: op.keyHash}
}

func (op *operation) checkKey(key string) error {
	if err := checkName(key, anOrderNumber); err != nil {
		return fmt.Errorf("onceguard: operation %q: %w: %w", op.name, ErrInvalidKey, err)
	}
	return nil
}

// Result is a value and how it came about.
type Result[T any] struct {
	Value T
	// How is the outcome of the call: executed, replayed, recovered or unguarded when
	// there is no error.
	How Outcome
	// Fence grows with every acquisition of the key. It is the one of the run whose
	// result this is, of the call that asked when the result was recovered, and 0 when
	// the run was this call's own and unguarded.
	Fence int64
	// ExecutedAt is when the result was stored, on the store's clock, if it is that
	// of another call: a replay, or in the Run mode a result that landed first. Else
	// it is zero.
	ExecutedAt time.Time
	// TraceParent is the W3C trace context of the call that ran the action, or that
	// recovered its result.
	TraceParent string
	// Stale means that another owner had the key when this call's result was to
	// be stored, or that somebody had settled it. Without a recovery hook the action has
	// probably run twice; with one the result may have been recovered meanwhile.
	Stale bool
}

// Do runs the action, unless the key has a result already or another owner runs
// it: then it returns that result, waits for it or refuses, as the operation's
// options say.
//
// The key names the instance of the effect: 1 to 255 bytes of UTF-8 without
// control characters. The action gets a context that is done when the caller's
// is. Its error comes back unchanged, and the key is free for a retry then, unless
// the failure policy or the dispatch says otherwise, see [OnFailure]; so
// it is when the action panics (the panic goes on) or exits its goroutine.
//
// Errors of Do itself mean that the action did not run: [ErrInProgress], [ErrMismatch],
// [ErrStorage], [ErrOutcomeUnknown], [ErrInvalidKey], [ErrInvalidInput], [ErrNestedCall],
// [ErrDraining], a [RememberedError] of an earlier run, or the context's error when the caller left
// first. An action that returns such an error of an inner call of its own has run, of course:
// [Result.How] of DoResult tells, it is then failed.
func (o *Operation[T]) Do(
	ctx context.Context, key string, action func(context.Context) (T, error), opts ...CallOption,
) (T, error) {
	result, err := o.DoResult(ctx, key, action, opts...)
	return result.Value, err
}

// DoResult is [Operation.Do] with word of how the value came about.
func (o *Operation[T]) DoResult(
	ctx context.Context, key string, action func(context.Context) (T, error), opts ...CallOption,
) (Result[T], error) {
	var result Result[T]
	if o == nil || o.op == nil || ctx == nil || action == nil {
		return Result[T]{How: OutcomeInvalid}, errors.New(
			"onceguard: the operation (made by NewOperation), the context and the action must not be nil")
	}
	whole := Key{o.op.name, key}
	c := &call{
		op:  o.op,
		key: whole,
		action: func(ctx context.Context) (err error) {
			result.Value, err = action(ctx)
			return err
		},
		encode: func() ([]byte, error) { return o.op.seal(whole, result.Value) },
		decode: func(data []byte) error {
			var value T
			if err := o.op.open(whole, data, &value); err != nil {
				return err
			}
			result.Value = value
			return nil
		},
	}
	if o.recover != nil {
		c.ask = func(ctx context.Context, lost Evidence) finding {
			value, found, err := o.recover(ctx, lost)
			return finding{set: func() { result.Value = value }, found: found, err: err}
		}
	}
	end, err := c.do(ctx, opts)
	result.How = end.Outcome
	result.Fence, result.ExecutedAt, result.TraceParent = c.ran.Fence, c.executedAt, c.ran.Owner.TraceParent
	result.Stale = c.stale
	return result, err
}
