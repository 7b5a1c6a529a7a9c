package guard

import (
	"context"
	"fmt"
)

// Erase drops the result that is stored under a key, for data that must be
// forgotten. The next call with the key runs the action. It never frees a key that
// an owner holds: that is an [InProgressError]; nor one whose outcome nobody knows: resolve
// it first. A key without a record is no error.
//
// Its errors are [ErrInvalidKey], [ErrInProgress], [ErrOutcomeUnknown], [ErrStorage], the context's, or
// one that says that the store lacks the ability, see [Eraser].
func (o *Operation[T]) Erase(ctx context.Context, key string) error {
	if err := o.usable(ctx); err != nil {
		return err
	}
	return o.op.erase(ctx, Key{o.op.name, key})
}

func (op *operation) erase(ctx context.Context, key Key) error {
	if err := op.checkKey(key.Name); err != nil {
		return err
	}
	eraser, ok := op.guard.store.(Eraser)
	if !ok {
		return fmt.Errorf("onceguard: operation %q: the store %s cannot erase", op.name, storeName(op.guard.store))
	}
	// As long as an owner may go on trying to store its result.
	lease := op.lease
	if op.protects() {
		lease = max(lease, op.patience())
	}
	var reply EraseReply
	err := op.outside(ctx, PhaseErase, func(ctx context.Context) (err error) {
		reply, err = eraser.Erase(ctx, EraseRequest{Key: op.stored(key), Lease: lease})
		return err
	})
	if err != nil {
		return err
	}
	if rec := reply.Record; !reply.Erased && (rec.Status == StatusHeld || rec.Dispatch != nil && reply.Left == 0) {
		return outcomeUnknown(op.name, rec, 0, nil)
	}
	if !reply.Erased {
		return inProgress(op.name, reply.Record, reply.Left)
	}
	return nil
}
