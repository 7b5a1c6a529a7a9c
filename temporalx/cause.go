package temporalx

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
)

// Why an activity was canceled, as its guard's observers are told: see [guard.CallEnd.Reason].
const (
	CauseCanceled       = "canceled"        // the workflow asked for it
	CauseWorkerShutdown = "worker_shutdown" // the worker stops
	CausePaused         = "paused"          // an operator has paused the activity
	CauseReset          = "reset"           // an operator has reset the activity
	CauseClosed         = "attempt_closed"  // the server does not know the attempt any more: it timed out, or its workflow is over
	CauseHeartbeat      = "heartbeat"       // the server has not taken a heartbeat
)

// causeOf names the cause that the SDK gives to the context of an activity.
func causeOf(cause error) string {
	var (
		closed  *serviceerror.NotFound
		refused serviceerror.ServiceError
	)
	switch {
	case errors.Is(cause, errWorkerStops), errors.Is(cause, worker.ErrWorkerShutdown):
		return CauseWorkerShutdown
	case errors.Is(cause, activity.ErrActivityPaused):
		return CausePaused
	case errors.Is(cause, activity.ErrActivityReset):
		return CauseReset
	case errors.As(cause, &closed):
		return CauseClosed
	case temporal.IsCanceledError(cause):
		return CauseCanceled
	case errors.As(cause, &refused):
		return CauseHeartbeat
	default:
		return ""
	}
}

// gaveUpError is the SDK's error of a cancel that an activity returns because it was canceled, on its
// way through the guard: it does not match that of the context.
type gaveUpError struct{ reported error }

func (g *gaveUpError) Error() string   { return g.reported.Error() }
func (g *gaveUpError) Unwrap() []error { return []error{g.reported, context.Canceled} }
