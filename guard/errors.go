package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// The kinds of error that a call returns, for [errors.Is]. In each of them the
// action did not run. An error of the action itself comes back unchanged; one of an
// earlier run that was remembered comes back in a [RememberedError].
var (
	// ErrInProgress means that another owner has the key. [InProgressError]
	// has the details.
	ErrInProgress = errors.New("in progress elsewhere")
	// ErrMismatch means that the key is in use with another input.
	ErrMismatch = errors.New("key already used with another input")
	// ErrStorage means that the store could not be asked. [StorageError] has the
	// details.
	ErrStorage = errors.New("storage failed")
	// ErrInvalidKey means that the key is empty, too long, not UTF-8 or has
	// control characters.
	ErrInvalidKey = errors.New("invalid key")
	// ErrInvalidInput means that no fingerprint of the input could be made.
	ErrInvalidInput = errors.New("invalid input")
	// ErrNestedCall means that an action called its own operation with its own
	// key: it would wait for itself.
	ErrNestedCall = errors.New("nested call with the key of the running action")
	// ErrDraining means that the guard takes no new calls: see [Guard.Drain].
	ErrDraining = errors.New("the guard is draining")
	// ErrOutcomeUnknown means that an earlier call may have had the effect, and
	// nobody knows. [OutcomeUnknownError] has the details.
	ErrOutcomeUnknown = errors.New("outcome unknown")
)

// ErrLeaseLost is the cause of the action's context when its lease is lost and
// the operation has [WithCancelOnLost]. No call returns it by itself.
var ErrLeaseLost = errors.New("onceguard: lease lost")

// InProgressError says who has the key and when to ask again. It matches
// [ErrInProgress].
type InProgressError struct {
	Operation  string
	RetryAfter time.Duration // the lease left when the key was last looked at; a live owner renews it
	// Since is when the owner acquired the key, on the store's clock. It is zero, and
	// Owner empty, when the record is one of a newer version.
	Since time.Time
	Owner string // the owner's label
}

func (e *InProgressError) Error() string {
	if e.Since.IsZero() {
		return fmt.Sprintf("onceguard: operation %q: %v, by a record that cannot be read: of a newer version, or not of onceguard; "+
			"ask again in %s", e.Operation, ErrInProgress, e.RetryAfter.Round(time.Millisecond))
	}
	return fmt.Sprintf("onceguard: operation %q: %v, held by %s since %s; ask again in %s",
		e.Operation, ErrInProgress, e.Owner, e.Since.UTC().Format(time.RFC3339), e.RetryAfter.Round(time.Millisecond))
}

func inProgress(operation string, held Record, left time.Duration) *InProgressError {
	return &InProgressError{Operation: operation, RetryAfter: left, Since: held.Created, Owner: held.Owner.Label}
}

// Is matches [ErrInProgress].
func (e *InProgressError) Is(target error) bool { return target == ErrInProgress }

// OutcomeUnknownError says whose effect may have happened. It matches
// [ErrOutcomeUnknown]. A retry changes nothing until the key is settled: by that
// owner if it still lives, by a recovery hook, or by [Operation.Resolve], for which it
// has the fence.
type OutcomeUnknownError struct {
	Operation string
	Fence     int64 // of the record, for Resolve
	// Since is when the effect may have been let out, on the store's clock, at the
	// earliest.
	Since       time.Time
	Owner       string // the label of who did
	TraceParent string // W3C trace context of its call
	// RetryAfter is when a later call will ask the recovery hook, for the first time or
	// again. It is 0 if there is no hook.
	RetryAfter time.Duration
	// Err says why the recovery hook could not tell; nil if it was not asked. It is no
	// part of the chain: that the hook's time was over does not say that the call's was.
	Err error
}

func (e *OutcomeUnknownError) Error() string {
	text := fmt.Sprintf("onceguard: operation %q: %v of the call of %s since %s; the action did not run: "+
		"find out what happened and resolve the key with fence %d (Operation.Resolve, or what an adapter has in its place)",
		e.Operation, ErrOutcomeUnknown, e.Owner, e.Since.UTC().Format(time.RFC3339), e.Fence)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is matches [ErrOutcomeUnknown].
func (e *OutcomeUnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

func outcomeUnknown(operation string, held Record, retryAfter time.Duration, cause error) *OutcomeUnknownError {
	e := &OutcomeUnknownError{
		Operation: operation, Fence: held.Fence, Since: held.Created,
		Owner: held.Owner.Label, TraceParent: held.Owner.TraceParent, RetryAfter: retryAfter, Err: cause,
	}
	if d := held.Dispatch; d != nil {
		e.Since, e.Owner, e.TraceParent = d.At, d.Owner.Label, d.Owner.TraceParent
	}
	return e
}

// RememberedError is an error of an earlier run of the action, which was stored
// because the failure policy said [Remember], and is returned in place of a new run.
// What [ErrorCodec] made of that error is in Err, for [errors.Is] and [errors.As].
type RememberedError struct {
	Operation string
	At        time.Time // when the error was stored, on the store's clock
	Fence     int64     // of the run that failed
	Err       error
}

func (e *RememberedError) Error() string {
	return fmt.Sprintf("onceguard: operation %q: failed at %s, and this is remembered: %v",
		e.Operation, e.At.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns the error of the run that failed.
func (e *RememberedError) Unwrap() error { return e.Err }

// StorageError says where the store failed and how. It matches [ErrStorage] and
// unwraps to the store's own error.
type StorageError struct {
	Operation string
	Phase     Phase
	Class     ErrorClass
	Err       error
}

func (e *StorageError) Error() string {
	return fmt.Sprintf("onceguard: operation %q: %v at %s (%s), %s: %v",
		e.Operation, ErrStorage, e.Phase, e.Class, undone(e.Phase), e.Err)
}

// undone says what a store that fails in a phase leaves undone.
func undone(phase Phase) string {
	switch phase { //nolint:exhaustive // all others are part of a call
	case PhaseReplace: // of a completion: a call never returns it
		return "the run may not be completed"
	case PhaseErase:
		return "the key may not be erased"
	case PhaseResolve:
		return "the key may not be resolved"
	case PhaseList:
		return "the list ends here"
	default:
		return "the action did not run"
	}
}

// Is matches [ErrStorage].
func (e *StorageError) Is(target error) bool { return target == ErrStorage }

// Unwrap returns the store's own error.
func (e *StorageError) Unwrap() error { return e.Err }

// ErrorClass sorts storage errors into a bounded set, fit for a metric label.
type ErrorClass string

// The classes of storage errors.
const (
	ClassTimeout     ErrorClass = "timeout"
	ClassConnection  ErrorClass = "connection"
	ClassReadOnly    ErrorClass = "readonly"
	ClassOutOfMemory ErrorClass = "out_of_memory"
	ClassCluster     ErrorClass = "cluster"
	ClassAuth        ErrorClass = "auth"
	ClassEncoding    ErrorClass = "encoding"
	ClassOther       ErrorClass = "other"
)

// ErrorClasses lists every class.
func ErrorClasses() []ErrorClass {
	return []ErrorClass{
		ClassTimeout, ClassConnection, ClassReadOnly, ClassOutOfMemory,
		ClassCluster, ClassAuth, ClassEncoding, ClassOther,
	}
}

// ClassifiedError is for stores that know the class of an error.
type ClassifiedError struct {
	Class ErrorClass
	Err   error
}

func (e *ClassifiedError) Error() string { return e.Err.Error() }

// Unwrap returns the error that was classified.
func (e *ClassifiedError) Unwrap() error { return e.Err }

// Classify returns the class of a store's error: its own if it is a
// [ClassifiedError], else what the standard library's errors tell.
func Classify(err error) ErrorClass {
	if classified, ok := errors.AsType[*ClassifiedError](err); ok {
		return classified.Class
	}
	netErr, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return ClassTimeout
	case isNet:
		return ClassConnection
	default:
		return ClassOther
	}
}

// notApplied reports an error after which the store has not done what it was asked:
// it said no. A connection that could not be made proves nothing: a client may have
// tried before on another one.
func notApplied(err error) bool {
	return slices.Contains([]ErrorClass{ClassReadOnly, ClassOutOfMemory, ClassAuth}, Classify(err))
}
