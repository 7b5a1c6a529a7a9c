package temporalx

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/onceguard/onceguard/guard"
)

// Recovery is the recovery hook of a [Rule]. [RecoverWith] makes it.
type Recovery interface {
	option(codec *payloadCodec) guard.OperationOption
	check() error
	// fits reports what is wrong with the hook for an activity that returns this, nil
	// for nothing but an error.
	fits(result reflect.Type) error
}

// RecoverWith makes a recovery hook of a function that asks the other side what became
// of a run of the activity whose end nobody knows: see guard.RecoveryFunc, also for when
// NotFound is final. T is the activity's result type. What is found goes to the store
// and to the workflow as if the activity had returned it. For an activity that returns
// only an error T is any, and the value nil.
//
// The function runs in place of the activity, in the attempt that asks: its context is the
// activity's, for activity.GetInfo and heartbeats. Options about the hook, such as
// guard.WithSettleTime and guard.WithRecoveryTimeout, belong into the rule's Options. A nil
// function is an error from [New].
func RecoverWith[T any](ask guard.RecoveryFunc[T]) Recovery { return recoverWith[T]{ask} }

type recoverWith[T any] struct{ ask guard.RecoveryFunc[T] }

func (r recoverWith[T]) check() error {
	if r.ask == nil {
		return errors.New("the function of RecoverWith is nil: leave Recovery out for no recovery")
	}
	return nil
}

func (r recoverWith[T]) fits(result reflect.Type) error {
	found := reflect.TypeFor[T]()
	switch {
	case found.Kind() == reflect.Interface, result != nil && found.AssignableTo(result):
		return nil
	case result == nil:
		return fmt.Errorf("RecoverWith finds results of %s, and it returns only an error: T is any then", found)
	}
	return fmt.Errorf("RecoverWith finds results of %s, and it returns %s", found, result)
}

func (r recoverWith[T]) option(codec *payloadCodec) guard.OperationOption {
	return guard.WithRecovery(func(ctx context.Context, lost guard.Evidence) (outcome, guard.Finding, error) {
		joinWait(ctx)
		value, finding, err := r.ask(ctx, lost)
		return codec.returned(ctx, value), finding, err
	})
}
