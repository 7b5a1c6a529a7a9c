package temporalx

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/onceguard/onceguard/guard"
)

// KeyFunc makes the key of an activity's call. [DefaultKey] and [KeyFrom] make
// the ones there are. It is safe for use by many goroutines.
type KeyFunc interface {
	key(call activityCall) (string, error)
	compares(info activity.Info) bool // the arguments with those of the call that had the key first
	check() error
	// fits reports what is wrong with the key for an activity that takes these
	// arguments, without its context.
	fits(args []reflect.Type) error
}

// activityCall is what a key is made of.
type activityCall struct {
	info  activity.Info
	args  []any
	name  string // in place of the activity type, when a rule names the operation
	local string // the number of a local activity in its workflow, when that is known
}

// named is the part of a key that says what is called.
func (c *activityCall) named() string {
	if c.name != "" {
		return c.name
	}
	return c.info.ActivityType.Name
}

// DefaultKey is the key of one activity execution, the same in all its attempts:
//
//	namespace/workflow id/run id/activity id/activity type/time of the scheduling
//
// Each part is percent-escaped, so that two executions never share a key. The time tells executions
// apart to which a workflow gives the same activity id, one after the other. A standalone activity
// has an empty workflow id and the run id of its own. A local activity has its number among those
// of the workflow and "local-call" instead of id and time (its id and "local" where the worker of
// the workflow has no interceptor, and then an attempt that the SDK schedules by a timer has
// another key). A key over 255 bytes becomes "sha256/" and its digest in hexadecimal.
func DefaultKey() KeyFunc { return executionKey{} }

type executionKey struct{}

func (executionKey) check() error { return nil }

func (executionKey) fits([]reflect.Type) error { return nil }

// compares is true for local activities, see the package comment.
func (executionKey) compares(info activity.Info) bool { return info.IsLocalActivity }

func (executionKey) key(call activityCall) (string, error) {
	info := call.info
	run := runID(info)
	if run == "" {
		return "", fmt.Errorf("%w: the activity has no run id, so that others could have the same key: "+
			"give it a rule with KeyFrom", guard.ErrInvalidKey)
	}
	id, last := info.ActivityID, scheduled(info)
	switch {
	case info.IsLocalActivity && call.local != "":
		id, last = call.local, "local-call"
	case info.IsLocalActivity:
		last = "local"
	}
	return joined([]string{info.Namespace, info.WorkflowExecution.ID, run, id, call.named(), last}), nil
}

// runID is that of the workflow, or of the activity itself if it belongs to none.
func runID(info activity.Info) string {
	if info.WorkflowExecution.ID == "" {
		return info.ActivityRunID
	}
	return info.WorkflowExecution.RunID
}

// scheduled is when the activity was, which is the same in all its attempts.
func scheduled(info activity.Info) string { return info.ScheduledTime.UTC().Format(time.RFC3339Nano) }

// WorkflowKey is a key of one activity of a workflow, over all its runs:
//
//	namespace/workflow id/activity id/activity type
//
// It survives a retry of the workflow, a reset, and a new run of the same workflow id
// by cron or by continue-as-new, so it fits workflows whose id names the effect. A
// workflow that recurs, to have its effects again each time, must not have it.
//
// The activity needs an id of its own, ActivityOptions.ActivityID, the same in every run.
// The one that the SDK makes is the number of an event, which is another one after a
// reset, a signal, or a worker that died: an activity whose id is a number fails, and is not
// retried. The id of a local activity is a count of those before it. So that a call under an id that
// another one had is no replay, the arguments are compared as those of a business key are. A
// standalone activity has no workflow: an error. So is any in the SDK's
// TestActivityEnvironment, which numbers them.
func WorkflowKey() KeyFunc { return workflowKey{} }

type workflowKey struct{}

func (workflowKey) check() error { return nil }

func (workflowKey) fits([]reflect.Type) error { return nil }

func (workflowKey) compares(activity.Info) bool { return true }

func (workflowKey) key(call activityCall) (string, error) {
	info := call.info
	if info.WorkflowExecution.ID == "" {
		return "", fmt.Errorf("%w: the activity belongs to no workflow: give it a rule with another key", guard.ErrInvalidKey)
	}
	if info.IsLocalActivity {
		return "", fmt.Errorf("%w: a local activity has only a number, which may be another one in the next run: "+
			"use KeyFrom or WithKey", guard.ErrInvalidKey)
	}
	if strings.Trim(info.ActivityID, "0123456789") == "" {
		return "", fmt.Errorf("%w: the activity id %q is one that the SDK has made, and that may be another one in the next run: "+
			"set ActivityOptions.ActivityID, to a name", guard.ErrInvalidKey, info.ActivityID)
	}
	return joined([]string{info.Namespace, info.WorkflowExecution.ID, info.ActivityID, call.named()}), nil
}

// joined is a key of parts, escaped so that two lists of parts never make one key.
func joined(parts []string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	return shorten(strings.Join(escaped, "/"))
}

// validKey reports whether the guard takes a key.
func validKey(key string) bool {
	return key != "" && len(key) <= guard.MaxKeyBytes && utf8.ValidString(key) && !strings.ContainsFunc(key, unicode.IsControl)
}

// shorten keeps a key within the guard's limit. What it makes of a longer one
// has two parts, and so never meets a key that was short enough.
func shorten(key string) string {
	if len(key) <= guard.MaxKeyBytes {
		return key
	}
	return "sha256/" + digest(key)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// KeyFrom takes the key from the activity's first argument. A must be that
// argument's type, a pointer where the activity takes a pointer; of a dynamic
// activity the first payload is decoded into an A. The key is 1 to 255 bytes of
// UTF-8 without control characters and names the instance of the effect.
//
// All arguments are the call's input: the same key with others is a mismatch.
// Another type, an error of f, an empty or invalid key fail the activity before
// it runs, and it is not retried.
//
// f must give the same key for the same argument, and is called by many
// goroutines at once. A nil f is an error from [New].
func KeyFrom[A any](f func(A) (string, error)) KeyFunc { return argumentKey[A]{f} }

type argumentKey[A any] struct{ f func(A) (string, error) }

func (k argumentKey[A]) check() error {
	if k.f == nil {
		return errors.New("the function of KeyFrom is nil")
	}
	return nil
}

func (argumentKey[A]) compares(activity.Info) bool { return true }

func (argumentKey[A]) fits(args []reflect.Type) error {
	want := reflect.TypeFor[A]()
	switch {
	case len(args) == 0:
		return fmt.Errorf("KeyFrom takes the key from a first argument of type %s, and there is none", want)
	case args[0] == want, want.Kind() == reflect.Interface && args[0].Implements(want), args[0].Kind() == reflect.Interface:
		return nil
	}
	return fmt.Errorf("KeyFrom takes the key from a first argument of type %s, and it is %s", want, args[0])
}

func (k argumentKey[A]) key(call activityCall) (string, error) {
	argument, err := firstArgument[A](call.args)
	if err != nil {
		return "", err
	}
	key, err := k.safely(argument)
	if err != nil {
		return "", fmt.Errorf("%w: from the first argument: %w", guard.ErrInvalidKey, err)
	}
	return key, nil
}

// safely makes an error of a panic of the user's function.
func (k argumentKey[A]) safely(argument A) (key string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return k.f(argument)
}

// firstArgument returns the first argument as an A. A dynamic activity's is not
// decoded yet; an error in that is no proof of a wrong type (a remote codec may
// be down), so it is retried, as the SDK does for other activities.
func firstArgument[A any](args []any) (argument A, err error) {
	if len(args) == 0 {
		return argument, fmt.Errorf("%w: it is made from the first argument, and there is none", guard.ErrInvalidKey)
	}
	switch first := args[0].(type) {
	case A:
		return first, nil
	case converter.EncodedValues:
		if err := first.Get(&argument); err != nil {
			return argument, fmt.Errorf("the key is made from the first argument as %s: %w", reflect.TypeFor[A](), err)
		}
		return argument, nil
	}
	if args[0] == nil && nilable(reflect.TypeFor[A]()) {
		return argument, nil
	}
	return argument, fmt.Errorf("%w: it is made from a first argument of type %s, but the activity has %T: "+
		"use KeyFrom with the activity's own type", guard.ErrInvalidKey, reflect.TypeFor[A](), args[0])
}

// nilable says for which types the SDK passes an untyped nil.
func nilable(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface
}
