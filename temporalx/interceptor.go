package temporalx

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/onceguard/onceguard/guard"
)

// Options configures [New].
type Options struct {
	// DataConverter is the one given to the client that the worker is made of.
	// Results are stored in its form. The SDK does not tell it to interceptors, so
	// it is required: converter.GetDefaultDataConverter() when the client has none.
	DataConverter converter.DataConverter

	// FailureConverter is the one given to the client, if it was given one. It makes the
	// failure that is stored of an error that is remembered, see guard.OnFailure, and
	// a replay reports that failure as it is. Default: the SDK's, as for a client that
	// has none, and a replay goes through the worker's own once more. Either way all of
	// the failure is stored in the form of DataConverter, its message too.
	FailureConverter converter.FailureConverter

	// Rules say which activities are guarded, and how. The first that is for an activity
	// counts. Activities without a rule are left alone. Default: all activities, each with
	// [DefaultKey] and the guard's options.
	Rules []Rule

	// Exclude are activity types that are left alone whatever the rules say.
	Exclude []string

	// MaxOperations bounds how many activity types that a rule by prefix or match is
	// for, or that no rule names, become operations of their own, with metrics of their
	// own. One more is an error for that activity, which is not retried. Default
	// [DefaultMaxOperations]. A rule with Operation needs none.
	MaxOperations int

	// MaxWaiting bounds how many activities of one worker wait for another owner at once, each in a
	// slot of the worker. One more is refused, as with guard.Refuse. Local activities, which have
	// slots of their own, are counted apart. Default: half of the worker's slots, as a [Plugin]
	// sees them in its options (of 100 where the worker's tuner names no number, and for an
	// interceptor of [New]).
	MaxWaiting int

	// WaitMargin is how much of the time of an attempt is left for its run when it has waited: then
	// it is refused, as with guard.Refuse, in place of being timed out by the server. Default: a
	// tenth of what it has when it comes, at most 5 s. Set it to what the activity takes.
	WaitMargin time.Duration

	// OnUnmatched is told at the start of a worker with a [Plugin] which rules are for no
	// activity that it has registered, such as when workers of several task queues share
	// the options. Default: the worker does not start.
	OnUnmatched func(error)
}

// Interceptor guards activities. [New] makes it. It is safe for use by several
// workers.
type Interceptor struct {
	interceptor.WorkerInterceptorBase
	operations *operations
	payloads   *payloadCodec
	waiters    *waiters
	maxWaiting int           // as set, 0 for a share of the slots
	margin     time.Duration // as set, 0 for a part of the attempt
	throttle   time.Duration // of the worker's heartbeats, 0 if it is not known
}

var _ interceptor.WorkerInterceptor = (*Interceptor)(nil)

// New returns a worker interceptor that guards activities, for
// worker.Options.Interceptors.
//
// Put it in front of interceptors that must see only activities that run, and
// behind those that must see every attempt, such as tracing.
//
// Every fault in the options is reported, joined in one error.
func New(g *guard.Guard, o Options) (*Interceptor, error) {
	var faults []error
	if g == nil {
		faults = append(faults, errors.New("guard is nil: make one with guard.New"))
	}
	if isNil(o.DataConverter) {
		faults = append(faults, errors.New("data converter is nil: "+
			"give the one of the client, or converter.GetDefaultDataConverter() if the client has none"))
	}
	if o.MaxOperations == 0 {
		o.MaxOperations = DefaultMaxOperations
	}
	if o.MaxOperations < 0 {
		faults = append(faults, fmt.Errorf("max operations %d: must be positive", o.MaxOperations))
	}
	if o.MaxWaiting < 0 {
		faults = append(faults, fmt.Errorf("max waiting %d: must be positive; so that none waits, give the rules guard.OnInFlight(guard.Refuse)", o.MaxWaiting))
	}
	if o.WaitMargin < 0 {
		faults = append(faults, fmt.Errorf("wait margin %s: must not be negative", o.WaitMargin))
	}
	faults = append(faults, checkRules(o.Rules))
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("onceguard: temporalx.New: %w", err)
	}
	payloads := newPayloadCodec(o.DataConverter, o.FailureConverter)
	made, err := newOperations(g, payloads, o)
	if err != nil {
		return nil, fmt.Errorf("onceguard: temporalx.New: %w", err)
	}
	return &Interceptor{
		operations: made, payloads: payloads,
		waiters:    newWaiters(o.MaxWaiting, unknownSlots, unknownSlots),
		maxWaiting: o.MaxWaiting, margin: o.WaitMargin,
	}, nil
}

// InterceptActivity is called by the SDK for every activity task.
func (w *Interceptor) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &activityInbound{
		ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next},
		worker:                         w,
	}
}

type activityInbound struct {
	interceptor.ActivityInboundInterceptorBase
	worker *Interceptor
}

// ExecuteActivity runs the activity, or returns the result that its key has.
func (a *activityInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if !activity.IsActivity(ctx) {
		return nil, toTemporal(fmt.Errorf("onceguard: %w: not called by an activity, so there is none to be made: "+
			"use guard.Operation with a key of your own", guard.ErrInvalidKey))
	}
	info := activity.GetInfo(ctx)
	op, err := a.worker.operations.get(info.ActivityType.Name)
	if err != nil {
		return nil, toTemporal(err)
	}
	set, isSet, err := fromHeader(interceptor.Header(ctx))
	switch {
	case op == nil && isSet:
		return a.Next.ExecuteActivity(context.WithValue(ctx, activityKey{}, keyOrError{set.Key, err}), in)
	case op == nil:
		return a.Next.ExecuteActivity(ctx, in)
	case err != nil:
		return nil, toTemporal(fmt.Errorf("onceguard: activity %q: %w", op.name, err))
	}
	data := a.worker.payloads.bind(ctx)
	key, options, err := op.plan(info, in.Args, set.Key, localNumber(interceptor.Header(ctx)), data)
	if err != nil {
		return nil, toTemporal(err)
	}
	if !info.IsLocalActivity {
		options = append(options, turn(info))
	}
	return a.once(context.WithValue(ctx, activityKey{}, keyOrError{key: key}), op, key, in, data, options)
}

// once is the guarded call. What the activity returned, value and error, goes
// back untouched.
func (a *activityInbound) once(
	ctx context.Context, op *guarded, key string, in *interceptor.ExecuteActivityInput,
	data converter.DataConverter, options []guard.CallOption,
) (any, error) {
	ran, wait := false, &attemptWait{attempt: ctx}
	options = append(options, a.worker.waiting(ctx, activity.GetInfo(ctx), &wait.kept)...)
	result, err := op.Do(context.WithValue(ctx, waitKey{}, wait), key, func(ctx context.Context) (outcome, error) {
		ran = true
		joinWait(ctx)
		value, err := a.Next.ExecuteActivity(withReservation(ctx), in)
		if err == activity.ErrResultPending { //nolint:errorlint // the SDK compares it so
			err = &pending{reported: err, deadline: activity.GetInfo(ctx).Deadline}
		} else if ctx.Err() != nil && temporal.IsCanceledError(err) {
			err = &gaveUpError{reported: err}
		}
		return outcome{value: value, converter: data}, err
	}, options...)
	if later, ok := errors.AsType[*pending](err); ok && ran {
		return result.value, later.reported
	}
	if left, ok := errors.AsType[*gaveUpError](err); ok && ran {
		return result.value, left.reported
	}
	switch {
	case err != nil && ran:
		return result.value, err
	case wait.kept != nil && errors.Is(err, guard.ErrInProgress):
		return nil, stillInProgress(err)
	case err != nil:
		return nil, notRun(err, op.name, key, data)
	case result.stored == nil:
		return result.value, nil
	}
	value, err := a.worker.payloads.replay(data, *result.stored)
	if err != nil {
		return nil, toTemporal(&guard.StorageError{
			Operation: op.name, Phase: guard.PhaseLoad, Class: guard.ClassEncoding, Err: err,
		})
	}
	return value, nil
}
