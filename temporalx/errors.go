package temporalx

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/onceguard/onceguard/guard"
)

// Types of the application errors that an activity fails with when it did not
// run, for NonRetryableErrorTypes of a retry policy and for errors.As in a
// workflow. On the worker the guard's own errors match too: errors.Is(err,
// guard.ErrInProgress).
const (
	// TypeInProgress means that another owner has the key. It is retried when the lease that is
	// left has run out, and up to a fifth of that later; after it has waited as the retry policy
	// says.
	TypeInProgress = "onceguard.InProgress"
	// TypeMismatch means that the key is in use with other arguments. It is not
	// retried.
	TypeMismatch = "onceguard.Mismatch"
	// TypeStorage means that the store failed and the operation fails closed, or
	// that a stored result could not be decoded. It is retried.
	TypeStorage = "onceguard.Storage"
	// TypeInvalidKey means that no key can be made of the arguments, or that it
	// is empty, too long or has control characters. It is not retried.
	TypeInvalidKey = "onceguard.InvalidKey"
	// TypeInvalidInput means that the arguments have no JSON form and so cannot be
	// compared. It is not retried.
	TypeInvalidInput = "onceguard.InvalidInput"
	// TypeNestedCall means that an activity guarded its own key once more inside
	// itself. It is not retried.
	TypeNestedCall = "onceguard.NestedCall"
	// TypeCanceled means that the worker stopped, or the time of the attempt was
	// over, before the activity ran. It is retried. A cancel that the workflow asked
	// for is reported by the SDK as such, without this type.
	TypeCanceled = "onceguard.Canceled"
	// TypeOutcomeUnknown means that an earlier call may have had the effect, and that
	// nobody knows. Its details are an [OutcomeUnknown]. It is not retried, so that
	// the workflow can branch and reconcile, see [Interceptor.Resolve]; a recovery hook that wants
	// to try again does so itself. Only when it is too early to ask the hook is it
	// retried, when that may be asked.
	TypeOutcomeUnknown = "onceguard.OutcomeUnknown"
	// TypeDraining means that the guard of this worker shuts down. It is retried,
	// by another worker.
	TypeDraining = "onceguard.Draining"
)

// minRetryDelay keeps a lease that is about to end from becoming no delay,
// which would mean the retry policy's own.
const minRetryDelay = 100 * time.Millisecond

// stillInProgress is a refusal after a wait. Its next attempt goes on waiting, and comes as the
// retry policy says: it must be there when the result is.
func stillInProgress(err error) error {
	return temporal.NewApplicationErrorWithOptions("not run: another owner has the key still", TypeInProgress,
		temporal.ApplicationErrorOptions{Cause: err, Category: temporal.ApplicationErrorCategoryBenign})
}

// spread lengthens a delay by up to a fifth, so that those who were refused together do not
// come back together.
func spread(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d)/retrySpread+1)) //nolint:gosec // no secret: it spreads load
}

const retrySpread = 5

// OutcomeUnknown is the details of an application error of [TypeOutcomeUnknown]: what a
// reconciliation needs.
type OutcomeUnknown struct {
	Operation string // the activity type, not the Operation of its [Rule]
	// Key is that which the rule made of the arguments. It is in the history as the failure
	// converter writes details: by default in plain text, also where the data converter
	// encrypts arguments. Give the client a failure converter for keys that are secret.
	Key   string
	Fence int64     // of the record, for [Interceptor.Resolve]
	Since time.Time // when the effect may have been let out, on the store's clock, at the earliest
	Owner string    // the label of who did
}

// notRun is what the SDK is told of a guarded call that did not run the activity.
func notRun(err error, operation, key string, data converter.DataConverter) error {
	switch err := err.(type) { //nolint:errorlint // not those that a hook's error wraps
	case *guard.RememberedError:
		return err.Err // the SDK looks at the outermost error only
	case *guard.OutcomeUnknownError:
		return outcomeUnknown(err, OutcomeUnknown{operation, key, err.Fence, err.Since, err.Owner}, data)
	default:
		return toTemporal(err)
	}
}

// outcomeUnknown is final, unless the recovery hook may be asked later. So it is not
// when the details cannot be encoded now: the SDK would panic, and a workflow cannot
// do without them.
func outcomeUnknown(err *guard.OutcomeUnknownError, details OutcomeUnknown, data converter.DataConverter) error {
	tooEarly := err.Err == nil && err.RetryAfter > 0
	options := temporal.ApplicationErrorOptions{Cause: err, NonRetryable: !tooEarly, Details: []any{details}}
	if tooEarly {
		options.NextRetryDelay = max(err.RetryAfter, minRetryDelay)
	}
	if _, failed := data.ToPayloads(details); failed != nil {
		options.Cause = errors.Join(err, failed)
		options.NonRetryable, options.Details = false, nil
	}
	return temporal.NewApplicationErrorWithOptions(
		"not run: an earlier call may have had the effect, and nobody knows", TypeOutcomeUnknown, options)
}

// toTemporal makes an application error of an error of the guard. Others, such
// as that of a context that ended, are the SDK's to report.
func toTemporal(err error) error {
	var busy *guard.InProgressError
	switch {
	case errors.As(err, &busy):
		return temporal.NewApplicationErrorWithOptions("not run: another owner has the key", TypeInProgress,
			temporal.ApplicationErrorOptions{
				Cause:          err,
				NextRetryDelay: spread(max(busy.RetryAfter, minRetryDelay)),
				Category:       temporal.ApplicationErrorCategoryBenign,
			})
	case errors.Is(err, guard.ErrStorage):
		return temporal.NewApplicationErrorWithCause("not run: no word from the store", TypeStorage, err)
	case errors.Is(err, guard.ErrMismatch):
		return final("not run: the key is in use with other arguments", TypeMismatch, err)
	case errors.Is(err, guard.ErrInvalidKey):
		return final("not run: there is no valid key", TypeInvalidKey, err)
	case errors.Is(err, guard.ErrInvalidInput):
		return final("not run: the arguments cannot be compared", TypeInvalidInput, err)
	case errors.Is(err, guard.ErrNestedCall):
		return final("not run: the activity has this key already; for an inner effect use another one, and install one plugin or interceptor on a worker", TypeNestedCall, err)
	case errors.Is(err, guard.ErrDraining):
		return temporal.NewApplicationErrorWithCause("not run: the worker shuts down", TypeDraining, err)
	case temporal.IsCanceledError(err):
		return err // for the SDK to report
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return temporal.NewApplicationErrorWithOptions("not run: the activity was stopped while it waited", TypeCanceled,
			temporal.ApplicationErrorOptions{Cause: err, Category: temporal.ApplicationErrorCategoryBenign})
	default:
		return err
	}
}

func final(message, errorType string, cause error) error {
	return temporal.NewNonRetryableApplicationError(message, errorType, cause)
}
