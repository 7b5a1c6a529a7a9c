package guard

import (
	"context"
	"fmt"
	"time"
)

// outside makes a call of the store that is no part of an operation's call, within a
// time limit. What begins the error of a caller that has left.
func outside(
	ctx context.Context, limit time.Duration, what, operation string, phase Phase, call func(context.Context) error,
) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := safely(func() error { return call(bounded) })
	switch {
	case err == nil:
		return nil
	case ended(ctx) != nil:
		return fmt.Errorf("onceguard: %s: %w", what, ended(ctx))
	default:
		return &StorageError{Operation: operation, Phase: phase, Class: Classify(err), Err: err}
	}
}

// outside is the same for a key of an operation.
func (op *operation) outside(ctx context.Context, phase Phase, call func(context.Context) error) error {
	what := fmt.Sprintf("operation %q: %s", op.name, undone(phase))
	return outside(ctx, op.storeTimeout, what, op.name, phase, call)
}
