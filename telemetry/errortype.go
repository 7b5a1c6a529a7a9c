package telemetry

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/onceguard/onceguard/guard"
)

// Values of error.type that are neither a class nor a type.
const (
	errorInProgress   = "in_progress"
	errorMismatch     = "mismatch"
	errorUnknown      = "outcome_unknown"
	errorInvalidKey   = "invalid_key"
	errorInvalidInput = "invalid_input"
	errorCanceled     = "canceled"
	errorDeadline     = "deadline_exceeded"
	errorUnwound      = "unwound"
	errorNestedCall   = "nested_call"
	errorDraining     = "draining"
	errorStale        = "stale"
)

// callErrorType names the kind of error that a caller gets, never its text: for
// our own errors a word, for the store's their class, for the action's, remembered or
// not, the Go type.
func callErrorType(end guard.CallEnd) string {
	switch end.Outcome {
	case guard.OutcomeRefused:
		return errorInProgress
	case guard.OutcomeMismatched:
		return errorMismatch
	case guard.OutcomeRejected:
		return rejectedErrorType(end.Err)
	case guard.OutcomeInvalid:
		return invalidErrorType(end.Err)
	case guard.OutcomeCanceled, guard.OutcomeInterrupted:
		return leftErrorType(end)
	case guard.OutcomeUnknown:
		return errorUnknown
	case guard.OutcomeReplayed:
		return replayedErrorType(end.Err)
	case guard.OutcomeFailed, guard.OutcomeUnguarded, guard.OutcomeExecuted, guard.OutcomeRecovered,
		guard.OutcomePending:
		// What the action returned.
	}
	return actionErrorType(end.Err)
}

func rejectedErrorType(err error) string {
	switch {
	case errors.Is(err, guard.ErrDraining):
		return errorDraining
	case errors.Is(err, guard.ErrStale):
		return errorStale
	}
	if storage, ok := errors.AsType[*guard.StorageError](err); ok {
		return string(knownClass(storage.Class))
	}
	return string(knownClass(guard.Classify(err)))
}

func invalidErrorType(err error) string {
	switch {
	case errors.Is(err, guard.ErrInvalidKey):
		return errorInvalidKey
	case errors.Is(err, guard.ErrInvalidInput):
		return errorInvalidInput
	case errors.Is(err, guard.ErrNestedCall):
		return errorNestedCall
	default:
		return contextErrorType(err)
	}
}

// replayedErrorType names what the action failed with when it ran.
func replayedErrorType(err error) string {
	if remembered, ok := errors.AsType[*guard.RememberedError](err); ok && remembered.Err != nil {
		return typeName(remembered.Err)
	}
	return typeName(err)
}

// leftErrorType says why the caller has left, in the word of the adapter if it has one.
func leftErrorType(end guard.CallEnd) string {
	switch {
	case end.Reason != "":
		return end.Reason
	case end.Outcome == guard.OutcomeInterrupted:
		return errorCanceled
	default:
		return contextErrorType(end.Err)
	}
}

func contextErrorType(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return errorCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return errorDeadline
	default:
		return typeName(err)
	}
}

// actionErrorType does not look into the error: what it wraps is the user's.
func actionErrorType(err error) string {
	if err == guard.ErrActionUnwound { //nolint:errorlint // a user's error that wraps it is the user's
		return errorUnwound
	}
	return typeName(err)
}

// phaseErrorType is the class of a store's error. One that has none is the caller's
// own, or the recovery hook's.
func phaseErrorType(end guard.PhaseEnd) string {
	if end.Class == "" {
		return contextErrorType(end.Err)
	}
	return string(knownClass(end.Class))
}

// typeName is the Go type of an error, below the wrappers that only add a text or
// a class: theirs says nothing.
func typeName(err error) string {
	for {
		inner := unwrapPlain(err)
		if inner == nil {
			return fmt.Sprintf("%T", err)
		}
		err = inner
	}
}

func unwrapPlain(err error) error {
	textWrapper := reflect.TypeOf(fmt.Errorf("%w", context.Canceled))
	if classified, ok := err.(*guard.ClassifiedError); ok { //nolint:errorlint // one layer at a time
		return classified.Err
	}
	if reflect.TypeOf(err) == textWrapper {
		return errors.Unwrap(err)
	}
	return nil
}
