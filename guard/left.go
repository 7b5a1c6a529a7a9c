package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A caller that leaves while its call runs.

// callerLeft is what a call returns when its context, or the one of its wait, ended before
// the action.
func (c *call) callerLeft(ctx context.Context) error {
	err, cause := ended(ctx), context.Cause(ctx)
	if cause == nil {
		cause = err
	}
	c.left = cause
	if errors.Is(cause, err) {
		return fmt.Errorf("onceguard: operation %q: the action did not run: %w", c.op.name, cause)
	}
	return fmt.Errorf("onceguard: operation %q: the action did not run: %w: %w", c.op.name, err, cause)
}

// interrupted reports whether the action gave up because its caller had left. A deadline is no
// such thing: the action took too long. Nor is a lease that was lost.
func (c *call) interrupted(ctx, actionCtx context.Context, actionErr error) (is bool) {
	defer contain()
	if actionErr == nil || errors.Is(context.Cause(actionCtx), ErrLeaseLost) || !errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	cause := context.Cause(ctx)
	if !errors.Is(actionErr, context.Canceled) && !errors.Is(actionErr, cause) {
		return false
	}
	c.left, c.gaveUp = cause, true
	return true
}

// reason names why the caller left.
func (c *call) reason() (word string) {
	if c.names == nil || c.left == nil {
		return ""
	}
	defer contain()
	return c.names(c.left)
}

// ended is the context's error, also when its deadline has passed and its own
// timer is late: a client that keeps to the deadline fails at that very moment.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
