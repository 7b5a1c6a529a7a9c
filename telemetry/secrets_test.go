package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

const secret = "card-4242424242424242"

// everything is all that a lab's three signals have shown, as text.
func (l *lab) everything(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%+v\n%s\n%s", l.spans.GetSpans(), scrape(t, l.registry), l.logs)
}

func TestCase_O2_ASecretIsInNoSpanLogOrMetric(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		store := newBrokenStore()
		quoting := fmt.Errorf("quoting %s", secret)
		ctx, input := t.Context(), guard.WithInput(secret)
		op := l.op(t, store, guard.WithLease(3*time.Second), guard.WithMaxResultBytes(100))

		must := func(_ string, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(op.Do(ctx, secret, returns(secret), input))                                  // executed
		must(op.Do(ctx, secret, returns(secret), input))                                  // replayed
		_, _ = op.Do(ctx, secret, returns(secret), guard.WithInput("other"))              // mismatched
		_, _ = op.Do(ctx, secret+"\n", returns(secret), input)                            // invalid
		_, _ = op.Do(ctx, secret+"-failed", fails(quoting), input)                        // failed
		_, _ = op.Do(ctx, secret+"-wrapped", fails(errors.Join(quoting, quoting)), input) // failed
		must(op.Do(ctx, secret+"-large", returns(strings.Repeat(secret, 10)), input))     // unstored
		panics := func(context.Context) (string, error) { panic(secret) }
		func() {
			defer func() { _ = recover() }()
			_, _ = op.Do(ctx, secret+"-panic", panics, input)
		}()
		canceled, cancel := context.WithCancelCause(ctx)
		cancel(quoting)
		_, _ = op.Do(canceled, secret+"-canceled", returns(secret), input)
		store.fail(&guard.ClassifiedError{Class: guard.ErrorClass(secret), Err: quoting},
			guard.PhaseReserve, guard.PhaseRenew, guard.PhaseReplace, guard.PhaseRelease)
		must(op.Do(ctx, secret+"-unguarded", returns(secret), input)) // every store call fails
		closed := l.op(t, store, guard.OnStorageError(guard.FailClosed))
		_, _ = closed.Do(ctx, secret+"-rejected", returns(secret), input)
		store.fail(nil, guard.PhaseReserve)
		must(op.Do(ctx, secret+"-lost", func(context.Context) (string, error) {
			time.Sleep(10 * time.Second)
			return secret, nil
		}, input))
		l.unknownOutcomes(t, quoting)
		synctest.Wait()
		if seen := l.everything(t); strings.Contains(seen, "4242") {
			at := strings.Index(seen, "4242")
			t.Errorf("the secret is in: …%s…", seen[max(0, at-200):min(len(seen), at+200)])
		}
	})
}

// unknownOutcomes are calls that know an error of a recovery hook, or one that is
// remembered, of a record with a secret result.
func (l *lab) unknownOutcomes(t *testing.T, err error) {
	t.Helper()
	op := l.tel.Operation(guard.OperationInfo{Name: opName, Lease: guard.DefaultLease})
	info := guard.CallInfo{Key: guard.Key{Operation: opName, Name: secret}, OwnerLabel: "host/1"}
	record := takenOver()
	record.Result, record.Fingerprint.Digest = []byte(secret), secret

	ctx, call := op.Call(t.Context(), info)
	call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: record})
	_, recovery := call.Phase(ctx, guard.PhaseRecover)
	recovery.End(guard.PhaseEnd{Result: "cannot_tell", Record: record, Err: err})
	call.Event(ctx, guard.Event{Kind: guard.EventHeld, Record: record, Reason: guard.ReasonCannotTell, Err: err})
	call.Event(ctx, guard.Event{Kind: guard.EventUnknown, Record: record, Err: err})
	call.Event(ctx, guard.Event{Kind: guard.EventEnded, Record: record})
	call.End(guard.CallEnd{Outcome: guard.OutcomeUnknown, Err: &guard.OutcomeUnknownError{Operation: opName, Err: err}})

	ctx, call = op.Call(t.Context(), info)
	call.Event(ctx, guard.Event{Kind: guard.EventHit, Record: record, Err: err})
	call.End(guard.CallEnd{Outcome: guard.OutcomeReplayed, Err: &guard.RememberedError{Operation: opName, Err: err}})

	ctx, call = op.Call(t.Context(), info)
	call.Event(ctx, guard.Event{Kind: guard.EventAcquired, Record: record})
	_, recovery = call.Phase(ctx, guard.PhaseRecover)
	recovery.End(guard.PhaseEnd{Result: "found", Record: record})
	call.Event(ctx, guard.Event{Kind: guard.EventEnded, Record: record})
	call.End(guard.CallEnd{Outcome: guard.OutcomeRecovered, Fence: record.Fence, Attempt: record.Attempt})
}
