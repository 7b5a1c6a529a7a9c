package temporalx

import (
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/onceguard/onceguard/guard"
)

// RememberNonRetryable is a failure policy, for guard.OnFailure: an application error
// of the activity that is not to be retried is remembered, and what becomes of all
// others it leaves undecided. It looks at the outermost error, as Temporal does; what the
// retry policy of a workflow says of types it does not see.
//
// It is for activities whose non-retryable errors are answers, such as a declined
// card, and not faults, such as an argument that this release does not understand: a
// remembered error is replayed until its retention ends, also to the release that has
// mended the fault. So it is not the default. A policy of your own may ask it for a
// part:
//
//	guard.OnFailure(func(err error, dispatched bool) guard.Disposition {
//		if neverSent(err) {
//			return guard.Release
//		}
//		return temporalx.RememberNonRetryable(err, dispatched)
//	})
func RememberNonRetryable(err error, _ bool) guard.Disposition {
	if app, ok := err.(*temporal.ApplicationError); ok && app.NonRetryable() { //nolint:errorlint // the outermost, see above
		return guard.Remember
	}
	return guard.Undecided
}

var _ guard.FailurePolicy = RememberNonRetryable

// failureCodec stores an error as the failure that the worker would report, so that a
// replay of it is the error that it was: type, message, details, causes and all. The
// failure is bytes to the data converter, which so encrypts all of it if it encrypts.
type failureCodec struct {
	data converter.DataConverter
	own  converter.FailureConverter // the client's, nil when it has none
}

// ErrorCodec gives the guard the codec of errors that belongs to that of results.
func (c *payloadCodec) ErrorCodec() guard.ErrorCodec { return c.errors }

// Encoding is part of [guard.ErrorCodec].
func (failureCodec) Encoding() string { return "temporal-failure" }

// Marshal is part of [guard.ErrorCodec]. The SDK's converter panics on details that do
// not encode; the guard takes that for an error.
func (c failureCodec) Marshal(remembered error) ([]byte, error) {
	failures := c.own
	if isNil(failures) {
		failures = temporal.GetDefaultFailureConverter()
	}
	failure, err := proto.Marshal(failures.ErrorToFailure(remembered))
	if err != nil {
		return nil, err
	}
	payload, err := c.data.ToPayload(failure)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(payload)
}

// Unmarshal is part of [guard.ErrorCodec].
func (c failureCodec) Unmarshal(data []byte, remembered *error) error {
	var payload commonpb.Payload
	if err := proto.Unmarshal(data, &payload); err != nil {
		return err
	}
	var plain []byte
	if err := c.data.FromPayload(&payload, &plain); err != nil {
		return err
	}
	var failure failurepb.Failure
	if err := proto.Unmarshal(plain, &failure); err != nil {
		return err
	}
	if isNil(c.own) {
		*remembered = reported(&failure)
	} else {
		*remembered = c.own.FailureToError(&failure) // which keeps the failure, to report it
	}
	return nil
}

// reported makes an error of a failure that the SDK's converter has made. What that
// makes itself would be reported as the failure is, past the worker's converter, which
// may well encode; details that are payloads already pass through all but that.
func reported(failure *failurepb.Failure) error {
	err := temporal.GetDefaultFailureConverter().FailureToError(failure)
	app, ok := err.(*temporal.ApplicationError) //nolint:errorlint // its causes come below
	if !ok {
		return err
	}
	var details []any
	for _, payload := range failure.GetApplicationFailureInfo().GetDetails().GetPayloads() {
		details = append(details, converter.NewRawValue(payload))
	}
	return temporal.NewApplicationErrorWithOptions(app.Message(), app.Type(), temporal.ApplicationErrorOptions{
		NonRetryable: app.NonRetryable(), Cause: reported(failure.GetCause()), Details: details,
		NextRetryDelay: app.NextRetryDelay(), Category: app.Category(),
	})
}
