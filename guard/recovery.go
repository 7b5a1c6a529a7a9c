package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Finding is what a recovery hook found out.
type Finding string

const (
	// Found means that the effect has happened. The value that comes with it becomes
	// the result.
	Found Finding = "found"
	// NotFound means that the effect has not happened and, by the run in question, never will. The
	// action runs then. It must be final: see [RecoveryFunc].
	NotFound Finding = "not_found"
	// CannotTell means neither: the key is held. It is also what an error, a panic and
	// a hook that takes too long mean.
	CannotTell Finding = "cannot_tell"
)

// Evidence is what is known of a run that may have had the effect.
type Evidence struct {
	Key Key
	// Fence is that of the call that asks now, and larger than that of the run in
	// question. Hand it to the other side if that can refuse smaller ones: then
	// a request of that run which is still on its way can do no harm.
	Fence int64
	// Dispatch says whose run is in question.
	Dispatch Dispatch
	// Fingerprint is that of its input, if it had one.
	Fingerprint Fingerprint
}

// RecoveryFunc asks the other side what became of a run whose owner is gone: is
// there a charge for this key at the provider? It runs under the reservation of the
// call that asks, so that only one asks at a time, and must not have the effect
// itself.
//
// NotFound must be final: a request of the lost run that is still on its way must
// not arrive later. There are two ways to that, and it is best to use both: the other side
// takes the fence and refuses smaller ones, or it is not asked before every request
// has arrived or died, see [WithSettleTime]. If neither can be had, say CannotTell
// in place of NotFound.
//
// The context is that of the call, with a time limit, [WithRecoveryTimeout], and has
// the lease, see [FenceFromContext]. A hook that does not return in time is left
// behind, and what it returns later is dropped.
type RecoveryFunc[T any] func(ctx context.Context, lost Evidence) (T, Finding, error)

// ErrRecoveryType is in the error of [NewOperation] when the function of [WithRecovery]
// finds results of another type than the operation has.
var ErrRecoveryType = errors.New("recovery hook of another result type")

// WithRecovery sets the recovery hook, which must be of the operation's result type.
// Every run then counts as dispatched from its reservation on (or as [MarkDispatch]
// says), at no call of the store, and whoever finds the record of one whose owner died
// or whose end nobody knows asks the hook before it runs the action. The others wait
// meanwhile. What [AtMostOnce] needs this needs too.
func WithRecovery[T any](ask RecoveryFunc[T]) OperationOption {
	return operationOption(func(s *settings) { s.recovery = typedRecovery[T]{ask} })
}

// WithSettleTime sets how long after the last sign of life of a run the recovery hook is not asked:
// the time within which a request that was sent must have arrived, or died. Calls wait that long,
// or, with [Refuse] or past their wait bound, get [ErrOutcomeUnknown]. It is also the pause between
// two calls that ask, if the hook cannot tell. Default one lease, at most the hold retention.
func WithSettleTime(d time.Duration) Option {
	return option(func(s *settings) { s.settle, s.settleSet = d, true })
}

// WithRecoveryTimeout bounds the recovery hook. Default one lease, between 1 ms and 24
// h.
func WithRecoveryTimeout(d time.Duration) Option {
	return option(func(s *settings) { s.recoveryTimeout, s.recoveryTimeoutSet = d, true })
}

// recovery is a hook of a type that settings do not know.
type recovery interface {
	// fits is given a pointer to the operation's result type.
	fits(result any) error
}

type typedRecovery[T any] struct{ ask RecoveryFunc[T] }

func (r typedRecovery[T]) fits(result any) error {
	if r.ask == nil {
		return errors.New("WithRecovery is nil: leave it out for no recovery")
	}
	if _, ok := result.(*T); !ok {
		return fmt.Errorf("%w: WithRecovery finds results of %s, the operation has %s: give it a hook of its own type",
			ErrRecoveryType, reflect.TypeFor[T](), reflect.TypeOf(result).Elem())
	}
	return nil
}

// finding is the answer of a hook, and sets the value.
type finding struct {
	set   func()
	found Finding
	err   error
}

var (
	errNoAnswer   = errors.New("the recovery hook did not answer")
	errCannotTell = errors.New("the recovery hook cannot tell")
)

// recover asks the hook about the record that this call took over. It says
// recovered when the value is there, executed when the action is to run, and else
// returns the error of the call.
// The context of the hook is that of an action: it may end with the lease, which is
// not to be taken for a caller that has left.
func (c *call) recover(ctx, hookCtx context.Context, held *heldLease) (Outcome, error) {
	answer := c.askHook(hookCtx)
	switch answer.found {
	case Found:
		answer.set()
		c.recovering, c.recovered = false, true
		return OutcomeRecovered, nil
	case NotFound:
		return c.cleared(ctx, held)
	case CannotTell:
	}
	return c.cannotTell(ctx, answer.err)
}

// cleared drops the evidence, so that the run that follows is the only one in
// question.
func (c *call) cleared(ctx context.Context, held *heldLease) (Outcome, error) {
	c.nothing = true
	own, err := held.mark(ctx, mark{nothingFound: true, dispatched: c.op.dispatchesAtOnce()})
	switch {
	case err == nil:
		c.own, c.recovering = own, false
		if !c.op.dispatchesAtOnce() {
			held.dispatched.at.Store(notDispatched)
			held.dispatched.told.Store(false)
			held.dispatched.refused.Store(false)
		}
		return OutcomeExecuted, nil
	case errors.Is(err, ErrLeaseLost):
		return c.cannotTell(ctx, err)
	case ended(ctx) != nil:
		return OutcomeCanceled, c.callerLeft(ctx)
	default:
		return OutcomeRejected, c.storageError(PhaseRenew, Classify(err), err)
	}
}

func (c *call) cannotTell(ctx context.Context, cause error) (Outcome, error) {
	if ended(ctx) != nil {
		return OutcomeCanceled, c.callerLeft(ctx)
	}
	return OutcomeUnknown, outcomeUnknown(c.op.name, c.own, c.op.settle, cause)
}

// notRecovered ends a call whose hook came to nothing, for a caller who may leave
// meanwhile: nothing has run, so its deadline counts. If somebody has settled the key
// while the hook was asked, that is the answer.
func (c *call) notRecovered(ctx context.Context, held *heldLease, outcome Outcome, err error) (Outcome, error) {
	own := c.own // the other goroutine goes on with its own
	finished := c.finishBehind(ctx, held, err)
	if outcome != OutcomeUnknown {
		return outcome, err
	}
	if finished && c.refused {
		if loaded, failed := c.load(ctx); failed == nil {
			return c.settledMeanwhile(ctx, loaded)
		}
	}
	c.obs.event(ctx, Event{Kind: EventUnknown, Record: &own})
	return outcome, err
}

func (c *call) settledMeanwhile(ctx context.Context, loaded LoadReply) (Outcome, error) {
	reply := ReserveReply{Record: loaded.Record, Left: loaded.Left}
	switch rec := loaded.Record; {
	case loaded.Found && rec.settled() && loaded.Left > 0:
		outcome, _, err := c.judge(ctx, &reply)
		return outcome, err
	case !loaded.Found, rec.settled(), rec.Status == StatusReleased, rec.Status == StatusPending:
		return OutcomeRefused, inProgress(c.op.name, rec, loaded.Left) // to be asked for again
	default:
		return c.unknownOutcome(ctx, rec, c.op.settle)
	}
}

// askHook runs the hook beside this goroutine, so that one that hangs, panics or exits
// is an answer too.
func (c *call) askHook(ctx context.Context) (answer finding) {
	ctx, phase := c.obs.phase(ctx, PhaseRecover)
	defer func() {
		end := PhaseEnd{Result: string(answer.found), Record: &c.own, Err: answer.err}
		if end.Err == errCannotTell { //nolint:errorlint // ours
			end.Err = nil // it has answered
		}
		phase.end(end)
	}()
	ctx, cancel := context.WithTimeout(ctx, c.op.recoveryTimeout)
	defer cancel()
	answered := make(chan finding, 1)
	lost := Evidence{Key: c.key, Fence: c.own.Fence, Dispatch: *c.own.Dispatch, Fingerprint: c.own.Fingerprint}
	go func() {
		got := finding{found: CannotTell, err: errNoAnswer} // stands when the hook exits its goroutine
		defer func() { answered <- got }()
		err := safely(func() error {
			got = c.ask(ctx, lost)
			return nil
		})
		if err != nil {
			got = finding{found: CannotTell, err: err}
		}
	}()
	select {
	case answer = <-answered:
	case <-ctx.Done():
		answer = finding{err: fmt.Errorf("%w in time: %w", errNoAnswer, context.Cause(ctx))}
	}
	switch {
	case answer.err != nil:
		answer.found = CannotTell
	case answer.found == CannotTell:
		answer.err = errCannotTell
	case answer.found != Found && answer.found != NotFound:
		answer.found, answer.err = CannotTell, fmt.Errorf("the recovery hook returned a finding %q, which does not exist", answer.found)
	}
	return answer
}
