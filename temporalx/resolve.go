package temporalx

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceguard/onceguard/guard"
)

// Resolve settles a key of an activity whose outcome nobody knows, on the word of
// somebody who has found out: guard.Operation.Resolve for activities, with its errors.
// The activity type, the key and the fence are those of the [OutcomeUnknown] that a
// workflow got. Those of guard.Guard.List do as well where the rule has no Operation; else
// its key goes with a type of the rule.
//
//   - guard.StatusCompleted with Value: the effect has happened, and this is what the
//     activity is to have returned. It goes through the data converter and is replayed
//     as any result.
//   - guard.StatusFailed with Err: it has not, and later calls get this error, most
//     likely an application error.
//   - guard.StatusReleased: it has not, never will, and the next call runs the
//     activity. "Never" is a matter of the other side: ask it with a fence of
//     unknown.Fence+1, if it can refuse smaller ones.
//
// It may be called anywhere, also by an activity that reconciles. That gives an ID that
// is the same in all its attempts, such as the workflow's run id and its own activity
// id, so that one that is tried again after it has settled the key succeeds.
func (w *Interceptor) Resolve(ctx context.Context, activityType, key string, r guard.Resolution[any]) error {
	if w == nil || w.operations == nil || ctx == nil {
		return errors.New("onceguard: the interceptor (made by New) and the context must not be nil")
	}
	op, err := w.operations.get(activityType)
	switch {
	case err != nil:
		return err
	case op == nil:
		return fmt.Errorf("onceguard: resolve: activity %q has no rule, and so no keys", activityType)
	}
	var value outcome
	if r.As == guard.StatusCompleted || !isNil(r.Value) {
		value = w.payloads.returned(ctx, r.Value)
	}
	return op.Resolve(ctx, key, guard.Resolution[outcome]{
		Fence: r.Fence, As: r.As, Value: value, Err: r.Err,
		Live: r.Live, By: r.By, Hashed: r.Hashed, ID: r.ID,
	})
}

// returned makes of a value the outcome that it would be if an activity had returned
// it, to which a nil pointer is no value.
func (c *payloadCodec) returned(ctx context.Context, value any) outcome {
	if isNil(value) {
		value = nil
	}
	return outcome{value: value, converter: c.bind(ctx)}
}
