package temporalx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/guard"
)

// Asynchronous completion: an activity returns activity.ErrResultPending, and somebody else
// completes it later, in this process or another one.

// completion is what travels in place of the bare task token.
type completion struct {
	Version     int                `json:"v"`
	TaskToken   []byte             `json:"task_token"`
	Activity    string             `json:"activity"` // its type
	Reservation *guard.Reservation `json:"reservation,omitempty"`
}

const completionVersion = 1

type reservationKey struct{}

// CompletionToken returns what [Interceptor.CompleteActivity] needs to complete the activity
// whose context this is: the task token, and the reservation of the key if it has one. The
// activity hands it out before it returns activity.ErrResultPending:
//
//	token, err := temporalx.CompletionToken(ctx)
//	if err != nil {
//		return Decision{}, err
//	}
//	if err := ask(request, token); err != nil { // a mail with a link, a job elsewhere
//		return Decision{}, err
//	}
//	return Decision{}, activity.ErrResultPending
//
// It is bytes of JSON, a few hundred, with the key in plain text. Who has it can complete the
// activity. It is an error outside of an activity, and in a local one, which cannot be completed
// later.
func CompletionToken(ctx context.Context) ([]byte, error) {
	if ctx == nil || !activity.IsActivity(ctx) {
		return nil, errors.New("onceguard: CompletionToken: not the context of an activity")
	}
	info := activity.GetInfo(ctx)
	if info.IsLocalActivity {
		return nil, errors.New("onceguard: CompletionToken: a local activity cannot be completed later: make it a normal one")
	}
	made := completion{Version: completionVersion, TaskToken: info.TaskToken, Activity: info.ActivityType.Name}
	if r, ok := ctx.Value(reservationKey{}).(guard.Reservation); ok {
		made.Reservation = &r
	}
	return json.Marshal(made)
}

// withReservation notes the reservation that the activity runs under, which an inner
// guard.Operation would hide.
func withReservation(ctx context.Context) context.Context {
	if r, ok := guard.ReservationFromContext(ctx); ok {
		return context.WithValue(ctx, reservationKey{}, r)
	}
	return ctx
}

// CompleteActivity ends an activity that has returned activity.ErrResultPending: the record of its
// key first, the activity second, by c.CompleteActivity. The token is that of [CompletionToken].
// With a nil err the result is stored and becomes that of the activity; with one the key is left as
// if the activity had returned that, and the activity fails with it.
//
// In that order, because what comes between the two may be lost. With the record stored, an
// activity that was not completed is tried again at its timeout, and replays the result. The other way
// round the workflow would go on while the key is free, and another call
// would have the effect again.
//
// It may be tried again after any error, with the same result: one of guard.ErrStorage or of
// Temporal may have stored the record all the same. guard.ErrStale means that a later attempt has
// the key, or that somebody has settled it, such as by a completion with another result, of which
// the first counts: neither record nor activity is touched. With a data converter that makes other
// bytes each time and knows no converter.RawValue nobody can tell whether a result is the same: a
// repeat is guard.ErrStale then, and the next attempt has the first one. A serviceerror.NotFound
// means that the attempt was over already; a later one finds the result.
//
// The interceptor is one with the rule of the activity, on the same store; it need not be that of a
// worker. Nothing checks that the result is of the activity's result type, and one that cannot be
// stored, such as one that is too large, is no error: see guard.WithMaxResultBytes.
func (w *Interceptor) CompleteActivity(ctx context.Context, c client.Client, token []byte, result any, err error) error {
	if err := w.mayComplete(ctx, c); err != nil {
		return err
	}
	var of completion
	switch failed := json.Unmarshal(token, &of); {
	case failed != nil, of.Version != completionVersion, len(of.TaskToken) == 0:
		return errors.New("onceguard: complete: not a token of CompletionToken (of this version): " +
			"give the bytes that the activity handed out, not its bare task token")
	}
	if of.Reservation != nil {
		op, failed := w.completed(of.Activity)
		if failed == nil {
			failed = w.completeRecord(ctx, op, *of.Reservation, result, err)
		}
		if failed != nil {
			return failed
		}
	}
	return c.CompleteActivity(ctx, of.TaskToken, result, err)
}

// PendingActivity names an activity that was left to a later completion, by what a caller may
// know without its token.
type PendingActivity struct {
	Namespace  string // of the workflow
	WorkflowID string
	RunID      string // default: the current run
	ActivityID string
	Type       string // of the activity
	Key        string // as [Key] has it in the activity; with [KeyFrom] and a rule for one type, what that makes
}

// CompleteActivityByID is [Interceptor.CompleteActivity] for those who have no token, by
// c.CompleteActivityByID. It looks for the reservation under the key. If there is none that waits
// for its completion, and no result that is the same, the error is guard.ErrStale, and the activity
// is not completed. So it is when a try with an error has freed or held the key and its second half
// failed; complete the activity by the client's own method then.
func (w *Interceptor) CompleteActivityByID(ctx context.Context, c client.Client, of PendingActivity, result any, err error) error {
	if err := w.mayComplete(ctx, c); err != nil {
		return err
	}
	op, failed := w.completed(of.Type)
	if failed != nil {
		return failed
	}
	reservation, kept, failed := op.Kept(ctx, of.Key)
	switch {
	case failed != nil:
		return failed
	case !kept:
		return fmt.Errorf("onceguard: complete: activity %q: %w: no reservation of its key waits for its completion", of.Type, guard.ErrStale)
	}
	if failed := w.completeRecord(ctx, op, reservation, result, err); failed != nil {
		return failed
	}
	return c.CompleteActivityByID(ctx, of.Namespace, of.WorkflowID, of.RunID, of.ActivityID, result, err)
}

func (w *Interceptor) mayComplete(ctx context.Context, c client.Client) error {
	if w == nil || w.operations == nil || ctx == nil || isNil(c) {
		return errors.New("onceguard: the interceptor (made by New), the context and the client must not be nil")
	}
	return nil
}

// completed is the operation of an activity that is to be completed.
func (w *Interceptor) completed(activityType string) (*guarded, error) {
	op, err := w.operations.get(activityType)
	if err == nil && op == nil {
		err = fmt.Errorf("onceguard: complete: activity %q has no rule here: use an interceptor with the rules of its worker", activityType)
	}
	return op, err
}

func (w *Interceptor) completeRecord(ctx context.Context, op *guarded, r guard.Reservation, result any, failure error) error {
	if failure == activity.ErrResultPending { //nolint:errorlint // the SDK compares it so
		return errors.New("onceguard: complete: activity.ErrResultPending completes nothing: give the result, or another error")
	}
	return op.Complete(ctx, r, w.payloads.returned(ctx, result), failure)
}

// pending is activity.ErrResultPending on its way through the guard.
type pending struct {
	reported error     // what the SDK is told
	deadline time.Time // of the attempt
}

func (p *pending) Error() string { return p.reported.Error() }

// comesLater is the guard's question whether an error leaves the key reserved. It does
// so until the attempt could be completed no more. A later attempt of the same activity does not
// wait for that: see turn.
func comesLater(err error) (time.Duration, bool) {
	left, ok := errors.AsType[*pending](err)
	if !ok {
		return 0, false
	}
	return time.Until(left.deadline), true
}

// turn makes the attempts of one activity execution turns of one job: the server begins one
// only when it has given up the one before. What the number is made of grows also when the
// attempts are counted anew, by a reset of the activity.
func turn(info activity.Info) guard.CallOption {
	job := joined([]string{info.Namespace, info.WorkflowExecution.ID, runID(info), info.ActivityID, scheduled(info)})
	return guard.WithTurn(digest(job), max(info.StartedTime.UnixMicro(), 0))
}
