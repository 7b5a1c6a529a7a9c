package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// What an action leaves to a later completion, see [KeepReserved], is completed by
// whoever gets the answer, in this process or another one.

// ErrStale is what [Operation.Complete] returns when another owner has the key, or
// somebody has settled it: nothing was stored.
var ErrStale = errors.New("stale: another owner has the key, or it is settled")

// WithTurn says that the call is a turn of a job that is tried again until it ends, such as an
// attempt of an activity, and that a turn begins only when the caller of the one before has given
// up on it. A reservation that an earlier turn of the same job has left to a later completion, see
// [KeepReserved], is taken over at once then, as that of an owner whose lease has run out. One
// whose action still runs is not. Default: the call is a job of its own.
//
// The job is 1 to 255 bytes of UTF-8 without control characters, and is stored in plain
// text; the number is at least 0, under 2^53, and grows from turn to turn.
func WithTurn(job string, number int64) CallOption {
	return callOption(func(c *callConfig) { c.turn = &Turn{Job: job, Number: number} })
}

const maxExact = 1<<53 - 1 // what every store holds exactly

// check says what is wrong with a turn.
func (t *Turn) check() error {
	if t == nil {
		return nil
	}
	if err := checkName(t.Job, "the id of a run"); err != nil {
		return fmt.Errorf("the job of WithTurn: %w", err)
	}
	if t.Number < 0 || t.Number > maxExact {
		return fmt.Errorf("the number of WithTurn, %d: not between 0 and %d", t.Number, int64(maxExact))
	}
	return nil
}

// Reservation is what completes an action that was left to a later completion: which key
// it has, and that it has it. It may be stored and sent, for example as JSON. Who has it can
// settle the key, so treat it as a secret.
type Reservation struct {
	Operation   string      `json:"operation"`
	Key         string      `json:"key"`
	Token       string      `json:"token"`
	Fence       int64       `json:"fence"`
	Attempt     int         `json:"attempt"`
	Label       string      `json:"label,omitempty"`
	TraceParent string      `json:"traceparent,omitempty"`
	Fingerprint Fingerprint `json:"fingerprint,omitzero"`
}

// ReservationFromContext returns the reservation of the action whose context this is, for
// [Operation.Complete]. It says false outside of an action and in one that runs
// unguarded.
func ReservationFromContext(ctx context.Context) (Reservation, bool) {
	r := runningFrom(ctx)
	if r == nil || r.held == nil {
		return Reservation{}, false
	}
	return reservationOf(r.key, r.own), true
}

func reservationOf(key Key, own Record) Reservation {
	return Reservation{
		Operation: key.Operation, Key: key.Name, Token: own.Owner.Token, Fence: own.Fence, Attempt: own.Attempt,
		Label: own.Owner.Label, TraceParent: own.Owner.TraceParent, Fingerprint: own.Fingerprint,
	}
}

func (r *Reservation) record() Record {
	return Record{
		Version: SchemaVersion, Status: StatusPending,
		Owner: Owner{Token: r.Token, Label: r.Label, TraceParent: r.TraceParent},
		Fence: r.Fence, Attempt: r.Attempt, Fingerprint: r.Fingerprint,
	}
}

// Kept returns the reservation of a key whose action has left it to a later completion,
// for those who have the key and not the reservation. Of a key that has a result it is the
// one of the run that made it, so that a completion may be tried again. It says false when the
// key has neither. Its errors are [ErrInvalidKey], [ErrStorage] and the context's.
func (o *Operation[T]) Kept(ctx context.Context, key string) (Reservation, bool, error) {
	if err := o.usable(ctx); err != nil {
		return Reservation{}, false, err
	}
	op, whole := o.op, Key{o.op.name, key}
	if err := op.checkKey(key); err != nil {
		return Reservation{}, false, err
	}
	var reply LoadReply
	err := op.outside(ctx, PhaseLoad, func(ctx context.Context) (err error) {
		reply, err = op.store.Load(ctx, LoadRequest{Key: op.stored(whole)})
		return err
	})
	if err != nil {
		return Reservation{}, false, err
	}
	rec := reply.Record
	kept := reply.Found && (rec.Status == StatusPending && rec.Kept != nil || rec.settled() && reply.Left > 0 && rec.Resolved == nil)
	if !kept {
		return Reservation{}, false, nil
	}
	return reservationOf(whole, rec), true, nil
}

// Complete ends a run whose action has left the key to a later completion. It stores the
// value, or, if there is an error, leaves the key as if the action had returned that:
// released, or held or remembered as [OnFailure] and the operation's other options say.
// To whoever waits for the key it is as any end of a run. The reservation may have run
// out meanwhile, as long as nobody else has the key. The kill switch of [WithEnabled] has no say.
//
// A repeat with the same reservation and end is the same completion and succeeds, so that it may be
// tried again after any error. The first value counts: another one later is [ErrStale], since
// others may have the first, and so is an error after it. So does the first error that is
// remembered; one that frees or holds the key leaves it open to a value that comes after it. To
// complete has the outcome executed, or failed with an error, or replayed if it is a repeat; to
// have left the key before had the outcome pending.
//
// Its errors are [ErrStale] when another owner has the key or it is settled otherwise; [ErrStorage]
// when the store has not said, in both modes of [OnStorageError], in which case it may have stored
// all the same; [ErrDraining]; and one that says what is wrong with the reservation. A value that
// cannot be encoded, or is too large, is not stored, counted, and no error, as at the end of any
// action.
//
// Whoever may call it is trusted: a reservation that was made up completes a key that is free.
func (o *Operation[T]) Complete(ctx context.Context, r Reservation, value T, failure error) error {
	if err := o.usable(ctx); err != nil {
		return err
	}
	op, whole := o.op, Key{r.Operation, r.Key}
	c := &call{
		op: op, key: whole, stored: op.stored(whole),
		encode: func() ([]byte, error) { return op.seal(whole, value) },
		decode: func([]byte) error { return nil }, // nobody gets it
		own:    r.record(), completes: true,
	}
	same := func(earlier []byte) (bool, error) { return sameResult(op, whole, earlier, value) }
	if err := c.checkCompletion(&r, failure); err != nil {
		return fmt.Errorf("onceguard: operation %q: complete: %w", op.name, err)
	}
	ctx, c.obs = observeCall(ctx, op.observer, op.callInfo(whole))
	end := CallEnd{Outcome: OutcomeRejected, Fence: r.Fence, Attempt: r.Attempt}
	defer func() { c.obs.end(end) }()
	if !op.guard.calls.enter(runningFrom(ctx).partOf(op.guard)) {
		_, end.Err = c.draining()
		return end.Err
	}
	defer op.guard.calls.leave()
	end.Outcome, end.Err = c.complete(ctx, failure, same)
	return end.Err
}

func (c *call) checkCompletion(r *Reservation, failure error) error {
	var faults faults
	faults.wrong(r.Operation != c.op.name, fmt.Sprintf("the reservation is of operation %q", r.Operation))
	faults.wrong(r.Token == "" || r.Fence <= 0 || r.Fence > maxExact || r.Attempt < 0 || r.Attempt > maxExact, "the reservation is not one of ReservationFromContext or Kept")
	if err := checkName(r.Key, anOrderNumber); err != nil {
		faults = append(faults, fmt.Errorf("%w: %w", ErrInvalidKey, err))
	}
	if failure != nil {
		_, again := c.later(failure)
		faults.wrong(again, "the error means that it is completed later still")
	}
	return errors.Join(faults...)
}

// complete writes the end of the run. That the action has left it is its word that
// something is out.
func (c *call) complete(ctx context.Context, failure error, same func([]byte) (bool, error)) (Outcome, error) {
	s, outcome := settlement{dispatched: c.op.protects()}, OutcomeExecuted
	if failure == nil {
		s.withoutResult(ReasonUnstored)
		if data, ok := c.encoded(ctx, c.encode); ok {
			s.how, s.data = wayResult, data
		}
	} else {
		outcome = OutcomeFailed
		s.withoutResult(ReasonDispatched)
		c.failure(ctx, &s, failure, false)
	}
	switch err := c.write(ctx, s); {
	case err != nil:
		return OutcomeRejected, c.storageError(PhaseReplace, Classify(err), err)
	case c.settled:
		if err := c.repeated(ctx, failure, same); err != nil {
			return OutcomeRejected, err
		}
		return OutcomeReplayed, nil
	case c.refused && c.free(ctx): // the record was gone, and the key is as free as it was to be
	case c.stale, c.refused:
		return OutcomeRejected, fmt.Errorf("onceguard: operation %q: %w", c.op.name, ErrStale)
	}
	return outcome, nil
}

// free reports whether the key is free, by the word of this completion.
func (c *call) free(ctx context.Context) bool {
	loaded, err := c.loadAfter(ctx)
	return err == nil && loaded.Found && loaded.Record.Status == StatusReleased && loaded.Record.Owner.Token == c.own.Owner.Token
}

// repeated is the answer to the completion of what was completed before: the first one counts.
func (c *call) repeated(ctx context.Context, failure error, same func([]byte) (bool, error)) error {
	loaded, err := c.loadAfter(ctx)
	if err != nil {
		return c.storageError(PhaseReplace, Classify(err), err)
	}
	rec := loaded.Record
	is := failure != nil && rec.Status == StatusFailed
	if failure == nil && rec.Status == StatusCompleted && rec.Encoding == c.op.encoding() {
		err = safely(func() (err error) {
			is, err = same(rec.Result)
			return err
		})
	}
	switch {
	case err != nil:
		return c.storageError(PhaseReplace, ClassEncoding, err)
	case !is:
		return fmt.Errorf("onceguard: operation %q: %w: it was completed before, with something else", c.op.name, ErrStale)
	}
	return nil
}

func sameResult[T any](op *operation, key Key, earlier []byte, value T) (bool, error) {
	data, err := op.decrypt(key, earlier)
	if err != nil {
		return false, err
	}
	if comparer, ok := op.codec.(resultComparer); ok {
		return comparer.SameResult(data, value)
	}
	again, err := op.codec.Marshal(value)
	return bytes.Equal(data, again), err
}
