package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// ErrNotResolved means that a key was not settled by [Operation.Resolve].
// [NotResolvedError] has the details.
var ErrNotResolved = errors.New("not resolved")

// NotResolvedError says what the key has in place of the record that was to be settled.
// It matches [ErrNotResolved].
type NotResolvedError struct {
	Operation string
	Found     bool   // the key has a record at all
	Record    Record // if Found; Record.Fence is what a next Resolve needs
	Left      time.Duration
	seen      int64
}

func (e *NotResolvedError) Error() string {
	var why string
	switch {
	case !e.Found:
		why = "the key has no record"
	case e.Record.Fence != e.seen && e.Record.Resolved != nil:
		why = fmt.Sprintf("it was resolved as %s by %s meanwhile", e.Record.Status, e.Record.Resolved.Label)
	case e.Record.Status == StatusUnknown:
		why = "its record cannot be read: it is of a newer version, or not of onceguard"
	case e.Record.Fence != e.seen:
		why = fmt.Sprintf("it is %s with fence %d, not %d: look again", e.Record.Status, e.Record.Fence, e.seen)
	case e.Record.Status == StatusPending:
		why = fmt.Sprintf("its owner %s is at work, its lease has %s left: wait, or settle it with Live",
			e.Record.Owner.Label, e.Left.Round(time.Millisecond))
	default:
		why = fmt.Sprintf("it is %s: there is nothing to settle", e.Record.Status)
	}
	return fmt.Sprintf("onceguard: operation %q: %v: %s", e.Operation, ErrNotResolved, why)
}

// Is matches [ErrNotResolved].
func (e *NotResolvedError) Is(target error) bool { return target == ErrNotResolved }

// Resolution is an operator's word about a key.
type Resolution[T any] struct {
	// Fence is that of the record that the operator looked at: of an
	// [OutcomeUnknownError] or of [Guard.List]. The key is settled only if it is still
	// the same.
	Fence int64
	// As is StatusCompleted with Value, the effect has happened; StatusFailed with
	// Err, it has not and calls are to get this error; or StatusReleased, it has not and the next
	// call is to run.
	As    Status
	Value T
	Err   error
	// Live settles also a reservation whose owner is at work. It learns that its lease
	// is lost, but its effect may still happen.
	Live bool
	// By says for people who settles it. Default: the guard's owner label.
	By string
	// ID names this resolution, for callers that try again: a repeat with the same ID and As is the
	// same resolution, and succeeds, until another call has the key. Value and Err are not
	// compared. At most 255 bytes. Default: each call is one of its own.
	ID string
	// Hashed says that the key is one of [Guard.List] and so hashed already, if the
	// operation has [WithHashedKeys]. With a cipher, which knows the plain key, only
	// StatusReleased can be had that way.
	Hashed bool
}

// Resolve settles a key that is held, or whose reservation is stuck, in its owner's stead. What the
// owner does later changes nothing, for as long as the record is kept (a released key: for the
// hold's retention, or until another call has it): its renewal is lost, its result stale. Of
// several that settle one key at once, one succeeds.
//
// Its errors are [ErrNotResolved], [ErrInvalidKey], [ErrStorage], the context's, one
// that says what is wrong with the resolution, or that the store lacks the ability, see
// [Resolver]. After ErrStorage the key may be settled all the same: look again.
func (o *Operation[T]) Resolve(ctx context.Context, key string, r Resolution[T]) error {
	if err := o.usable(ctx); err != nil {
		return err
	}
	op, whole := o.op, Key{o.op.name, key}
	req := ResolveRequest{
		Key: whole, Fence: r.Fence, As: r.As, Live: r.Live,
		Resolver: Owner{Token: r.ID, Label: r.By},
		Lease:    op.lease, Retention: op.retention,
	}
	if r.By == "" {
		req.Resolver.Label = op.label
	}
	if r.ID == "" {
		req.Resolver.Token = newToken()
	}
	if !r.Hashed {
		req.Key = op.stored(whole)
	}
	if r.As == StatusReleased {
		req.Lease = max(op.lease, op.holdRetention) // the owner may come back late
	}
	if err := errors.Join(op.checkResolution(key, &req), r.check(op)); err != nil {
		return fmt.Errorf("onceguard: operation %q: resolve: %w", op.name, err)
	}
	err := safely(func() (err error) {
		switch r.As { //nolint:exhaustive // checked above
		case StatusCompleted:
			req.Encoding = op.encoding()
			req.Result, err = op.seal(whole, r.Value)
		case StatusFailed:
			req.Encoding, req.Retention = op.errorEncoding(), op.failureRetention
			req.Result, err = op.sealError(whole, r.Err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("onceguard: operation %q: resolve: %w", op.name, err)
	}
	return op.resolveKey(ctx, req)
}

// check finds what contradicts itself.
func (r *Resolution[T]) check(op *operation) error {
	var faults faults
	faults.wrong(r.As == StatusFailed && r.Err == nil, "no Err: it is what calls are to get")
	faults.wrong(r.As != StatusFailed && r.Err != nil, "an Err goes with As: StatusFailed only")
	faults.wrong(r.As != StatusCompleted && !reflect.ValueOf(&r.Value).Elem().IsZero(), "a Value goes with As: StatusCompleted only")
	faults.wrong(r.Hashed && op.cipher != nil && r.As != StatusReleased,
		"a hashed key with a cipher: what is encrypted for it could not be decrypted by calls: give the plain key")
	return errors.Join(faults...)
}

func (op *operation) checkResolution(key string, req *ResolveRequest) error {
	faults := []error{oneOf("As", req.As, StatusCompleted, StatusFailed, StatusReleased)}
	if err := checkName(key, anOrderNumber); err != nil {
		faults = append(faults, fmt.Errorf("%w: %w", ErrInvalidKey, err))
	}
	if req.Fence <= 0 {
		faults = append(faults, errors.New("no Fence: give that of the record that you looked at"))
	}
	if err := checkLabel(req.Resolver.Label); err != nil {
		faults = append(faults, fmt.Errorf("by whom: %w", err))
	}
	if err := checkName(req.Resolver.Token, anOrderNumber); err != nil {
		faults = append(faults, fmt.Errorf("id: %w", err))
	}
	return errors.Join(faults...)
}

func (op *operation) resolveKey(ctx context.Context, req ResolveRequest) error {
	resolver, ok := op.guard.store.(Resolver)
	if !ok {
		return fmt.Errorf("onceguard: operation %q: the store %s cannot resolve", op.name, storeName(op.guard.store))
	}
	var reply ResolveReply
	err := op.outside(ctx, PhaseResolve, func(ctx context.Context) (err error) {
		reply, err = resolver.Resolve(ctx, req)
		return err
	})
	switch {
	case err != nil:
		return err
	case !reply.Resolved:
		return &NotResolvedError{Operation: op.name, Found: reply.Found, Record: reply.Record, Left: reply.Left, seen: req.Fence}
	}
	return nil
}
