package temporalx

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/guard"
)

// HeaderKey is the name of the header that carries a key which a workflow has set.
const HeaderKey = "onceguard-key"

// setKey is a key that a workflow has set, and the content of the header.
type setKey struct {
	Key     string `json:"key"`
	Inherit bool   `json:"inherit,omitempty"` // by child workflows and the next run
}

// In a workflow's context: the key that it has set for activities, and the one that goes
// to other runs as well, which counts for activities where there is no other.
type (
	ownKey       struct{}
	inheritedKey struct{}
)

// WithKey sets the key of the guarded activities that are executed with the context,
// local ones too. It goes before the key of their rule:
//
//	ctx = temporalx.WithKey(ctx, order.ID)
//	err := workflow.ExecuteActivity(ctx, "ChargeCard", order).Get(ctx, &receipt)
//
// As with a business key, the same key with other arguments is a mismatch. The key
// names the instance of the effect, in every workflow of the store: 1 to 255 bytes of
// UTF-8 without control characters. One that is not valid fails the activity, which is
// not retried. Both the worker of the workflow and that of the activity need the
// interceptor. The key goes into a header of the history, as it is: use no secret.
//
// It must be the same when the workflow is replayed. Child workflows do not inherit
// it, see [WithInheritedKey], whose key goes on to them beside it. An empty key is an
// invalid one. The operation tells one type of activity from another, nothing else does:
// two calls of one type with one key and the same arguments are one effect.
func WithKey(ctx workflow.Context, key string) workflow.Context {
	return workflow.WithValue(ctx, ownKey{}, setKey{Key: key})
}

// WithInheritedKey is [WithKey] for the child workflows that are executed with the
// context too, and for the next run of a workflow that continues as new with it: their
// guarded activities have the key, unless they set another. It must fit the
// arguments of all of them: the operation tells one type of activity from another, nothing else does.
func WithInheritedKey(ctx workflow.Context, key string) workflow.Context {
	ctx = workflow.WithValue(ctx, ownKey{}, nil) // what was set before counts no more
	return workflow.WithValue(ctx, inheritedKey{}, setKey{Key: key, Inherit: true})
}

// payload is the header's, in the form of the SDK's default converter, whatever the
// client has. JSON would make one valid key of all that differ only in what is no UTF-8: they
// are sent as an empty one.
func (set setKey) payload() (*common.Payload, error) {
	if !utf8.ValidString(set.Key) {
		set.Key = ""
	}
	return converter.GetDefaultDataConverter().ToPayload(set)
}

// fromHeader reads the key of a header, if there is one: it may be wrong.
func fromHeader(fields map[string]*common.Payload) (set setKey, ok bool, err error) {
	payload := fields[HeaderKey]
	if payload == nil {
		return set, false, nil
	}
	switch err := converter.GetDefaultDataConverter().FromPayload(payload, &set); {
	case err != nil:
		return setKey{}, true, fmt.Errorf("%w: the header %q cannot be read: %w", guard.ErrInvalidKey, HeaderKey, err)
	case set.Key == "":
		return set, true, fmt.Errorf("%w: the workflow has set one that is empty or no UTF-8", guard.ErrInvalidKey)
	}
	return set, true, nil
}

// headerLocal is the name of the header with the number of a local activity among those
// that its workflow has executed. Unlike its id it is the same in all attempts: the SDK
// gives an attempt that it schedules by a timer an id of its own.
const headerLocal = "onceguard-local"

// localNumber is that number, empty where the worker of the workflow has no interceptor.
func localNumber(fields map[string]*common.Payload) string {
	var n int
	payload := fields[headerLocal]
	if payload == nil || converter.GetDefaultDataConverter().FromPayload(payload, &n) != nil {
		return ""
	}
	return strconv.Itoa(n)
}

// InterceptWorkflow is called by the SDK for every workflow: it carries the keys that
// workflows set.
func (w *Interceptor) InterceptWorkflow(
	_ workflow.Context, next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &workflowInbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type workflowInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	inherited *setKey
}

func (w *workflowInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	return w.Next.Init(&workflowOutbound{
		WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: outbound},
	})
}

// ExecuteWorkflow takes over an inherited key. One that is wrong is for the activities
// to report.
func (w *workflowInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	set, ok, err := fromHeader(interceptor.WorkflowHeader(ctx))
	if ok && (set.Inherit || err != nil) {
		set.Inherit = true
		w.inherited = &set
	}
	return w.Next.ExecuteWorkflow(w.inherit(ctx), in)
}

// ExecuteUpdate takes it over into the handlers of updates, whose context is not that of
// the workflow.
func (w *workflowInbound) ExecuteUpdate(ctx workflow.Context, in *interceptor.UpdateInput) (any, error) {
	return w.Next.ExecuteUpdate(w.inherit(ctx), in)
}

func (w *workflowInbound) inherit(ctx workflow.Context) workflow.Context {
	if w.inherited == nil {
		return ctx
	}
	return workflow.WithValue(ctx, inheritedKey{}, *w.inherited)
}

type workflowOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	locals int // local activities that were executed so far
}

// receiver is what a key is sent to.
type receiver bool

const (
	forActivity receiver = false
	forRun      receiver = true // of a workflow: only a key that it inherits
)

// send puts the key of a context into the header of what is executed with it, which the
// SDK has made anew for that.
func send(ctx workflow.Context, to receiver) error {
	set, ok := ctx.Value(ownKey{}).(setKey)
	if !ok || to == forRun {
		set, ok = ctx.Value(inheritedKey{}).(setKey)
	}
	if !ok {
		return nil
	}
	payload, err := set.payload()
	if err != nil {
		return err
	}
	interceptor.WorkflowHeader(ctx)[HeaderKey] = payload
	return nil
}

func (w *workflowOutbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if err := send(ctx, forActivity); err != nil {
		return failed(ctx, err)
	}
	return w.Next.ExecuteActivity(ctx, activityType, args...)
}

func (w *workflowOutbound) ExecuteLocalActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	if err := send(ctx, forActivity); err != nil {
		return failed(ctx, err)
	}
	w.locals++
	payload, err := converter.GetDefaultDataConverter().ToPayload(w.locals)
	if err != nil {
		return failed(ctx, err)
	}
	interceptor.WorkflowHeader(ctx)[headerLocal] = payload
	return w.Next.ExecuteLocalActivity(ctx, activityType, args...)
}

func (w *workflowOutbound) ExecuteChildWorkflow(
	ctx workflow.Context, workflowType string, args ...any,
) workflow.ChildWorkflowFuture {
	// An error of a plain struct of two fields cannot be, and a child future of
	// one cannot be made: without the header the child's own keys count.
	_ = send(ctx, forRun)
	return w.Next.ExecuteChildWorkflow(ctx, workflowType, args...)
}

func (w *workflowOutbound) NewContinueAsNewError(ctx workflow.Context, wfn any, args ...any) error {
	if err := send(ctx, forRun); err != nil {
		return err
	}
	return w.Next.NewContinueAsNewError(ctx, wfn, args...)
}

func (w *workflowOutbound) NewContinueAsNewErrorWithOptions(
	ctx workflow.Context, options workflow.ContinueAsNewErrorOptions, wfn any, args ...any,
) error {
	if err := send(ctx, forRun); err != nil {
		return err
	}
	// Versions of the SDK before 1.51 do not have it, and do not call this method.
	next, ok := w.Next.(interface {
		NewContinueAsNewErrorWithOptions(workflow.Context, workflow.ContinueAsNewErrorOptions, any, ...any) error
	})
	if !ok {
		return errors.New("onceguard: this version of the Temporal SDK cannot continue as new with options behind an interceptor")
	}
	return next.NewContinueAsNewErrorWithOptions(ctx, options, wfn, args...)
}

// failed is a future that has failed.
func failed(ctx workflow.Context, err error) workflow.Future {
	future, settable := workflow.NewFuture(ctx)
	settable.SetError(err)
	return future
}

type activityKey struct{}

// keyOrError is the key of an activity in its context.
type keyOrError struct {
	key string
	err error
}

// Key returns the key of the activity whose context this is, to pass to a provider
// as its idempotency key, or to guard one call inside a larger activity by a
// guard.Operation of its own. It is unique within one type of activity: put the type in front where a
// provider knows one kind of key for all. For an activity that is guarded it is the guard's key; for
// another it is the one that the workflow has set, or else that of [DefaultKey].
// Its errors match guard.ErrInvalidKey.
func Key(ctx context.Context) (string, error) {
	if found, ok := ctx.Value(activityKey{}).(keyOrError); ok {
		if found.err != nil {
			return "", fmt.Errorf("onceguard: %w", found.err)
		}
		return found.key, nil
	}
	if !activity.IsActivity(ctx) {
		return "", fmt.Errorf("onceguard: %w: this is not the context of an activity", guard.ErrInvalidKey)
	}
	return DefaultKey().key(activityCall{info: activity.GetInfo(ctx), local: localNumber(interceptor.Header(ctx))})
}
