package guard

import (
	"context"
	"time"
)

// Phase is a step of the protocol.
type Phase string

// The phases of a call. A hold is a replace: the reservation becomes a held record.
// Load and notify, the look at a record and the watch over it while a call waits, and
// erase, resolve and list, which are no part of a call, are named only in storage
// errors.
const (
	PhaseReserve Phase = "reserve"
	PhaseWait    Phase = "wait"
	PhaseRenew   Phase = "renew"
	PhaseReplace Phase = "replace"
	PhaseRelease Phase = "release"
	PhaseRecover Phase = "recover"
	PhaseLoad    Phase = "load"
	PhaseNotify  Phase = "notify"
	PhaseErase   Phase = "erase"
	PhaseResolve Phase = "resolve"
	PhaseList    Phase = "list"
)

// Outcome is how a call ended. Every call has exactly one.
type Outcome string

const (
	// OutcomeExecuted means that the action ran under a reservation and succeeded.
	OutcomeExecuted Outcome = "executed"
	// OutcomeReplayed means that a stored result, or a remembered error, was returned,
	// waited for or not.
	OutcomeReplayed Outcome = "replayed"
	// OutcomeRecovered means that the recovery hook found the result of an owner
	// that is gone, and it was returned.
	OutcomeRecovered Outcome = "recovered"
	// OutcomeFailed means that the action ran and failed, panicked or exited.
	OutcomeFailed Outcome = "failed"
	// OutcomeInterrupted means that the action ran and gave up because its caller had left: the
	// caller's context was canceled and the action returned that. It is no failure of the action.
	OutcomeInterrupted Outcome = "interrupted"
	// OutcomeRefused means that another owner has the key.
	OutcomeRefused Outcome = "refused"
	// OutcomeMismatched means that the key is in use with another input.
	OutcomeMismatched Outcome = "mismatched"
	// OutcomeUnguarded means that the action ran without a reservation.
	OutcomeUnguarded Outcome = "unguarded"
	// OutcomeRejected means that the store failed, or the guard drains, and the
	// action did not run. Of [Operation.Complete] also that it was refused.
	OutcomeRejected Outcome = "rejected"
	// OutcomeInvalid means that the key or the input was not fit for a call.
	OutcomeInvalid Outcome = "invalid"
	// OutcomeCanceled means that the caller left before the action began.
	OutcomeCanceled Outcome = "canceled"
	// OutcomePending means that the action left its result to a later completion
	// and the key stays reserved: see [KeepReserved].
	OutcomePending Outcome = "pending"
	// OutcomeUnknown means that the effect may have happened and nobody knows: the
	// action did not run.
	OutcomeUnknown Outcome = "unknown"
)

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeExecuted, OutcomeReplayed, OutcomeRecovered, OutcomeFailed, OutcomeInterrupted, OutcomeRefused, OutcomeMismatched,
		OutcomeUnguarded, OutcomeRejected, OutcomeInvalid, OutcomeCanceled,
		OutcomePending, OutcomeUnknown,
	}
}

// Observer sees what a guard does and never steers it. Its methods are called
// without a lock and by many goroutines at once. They must not block: the call
// waits for them. A panic in an observer is contained.
type Observer interface {
	// Operation is called once when an operation is made.
	Operation(info OperationInfo) OperationObserver
}

// OperationObserver sees the calls of one operation.
type OperationObserver interface {
	// Call is called at the start of a call. The context it returns is the one
	// that the phases and the action get.
	Call(ctx context.Context, info CallInfo) (context.Context, CallObserver)
}

// CallObserver sees one call. Phases and events can come from two goroutines at once, the caller's
// and the renewer's. What a store holds up can come after the end: a renewal, a release, a result
// or a hold that is tried again behind the caller, with their events. Records are lent: an observer
// that keeps one copies it.
type CallObserver interface {
	// TraceParent returns the W3C trace context of the call, or "".
	TraceParent() string
	// Phase is called at the start of a phase.
	Phase(ctx context.Context, phase Phase) (context.Context, PhaseObserver)
	// Event is called when something happened that is worth counting.
	Event(ctx context.Context, event Event)
	// End is called once, when the call has its outcome.
	End(end CallEnd)
}

// PhaseObserver sees one phase.
type PhaseObserver interface {
	End(end PhaseEnd)
}

// OperationInfo describes an operation.
type OperationInfo struct {
	Name           string
	Store          string // what the store calls itself
	Lease          time.Duration
	Retention      time.Duration
	OnStorageError StorageErrorMode
	OnInFlight     InFlightMode
}

// CallInfo describes a call.
type CallInfo struct {
	Key        Key
	OwnerLabel string

	keyHash *keyHasher // see its method KeyHash
}

// CallEnd says how a call ended.
type CallEnd struct {
	Outcome Outcome
	Err     error // what the caller gets
	// Reason is a word for why the caller left, of the outcomes canceled and interrupted, as
	// [CancelReason] says. Empty without it.
	Reason  string
	Fence   int64
	Attempt int
}

// PhaseEnd says how a phase ended.
type PhaseEnd struct {
	// Result is a bounded word: for reserve acquired, pending, completed, failed,
	// held, released, unknown; for wait the outcome it led to; for renew, replace and
	// release what the store replied, for a hold held, restored or refused; for recover
	// what the hook found. Empty when Err is set.
	Result string
	Err    error
	Class  ErrorClass // of Err, empty when it is no fault of the store: the caller canceled
	Record *Record    // what the phase found or wrote, nil if there is none
}

// EventKind is the kind of an [Event]. Observers ignore kinds they do not know.
type EventKind int

const (
	// EventAcquired means that the call owns the key from now on. Record is its
	// reservation, with TookOver set if it is a takeover.
	EventAcquired EventKind = iota + 1
	// EventEnded means that the call does not own the key any more, whatever the
	// store knows of it. Each EventAcquired is followed by one.
	EventEnded
	// EventHit means that a stored result, or a remembered error, is returned. Record
	// holds it.
	EventHit
	// EventCollision means that the key was found reserved by another live owner:
	// Record. It comes at most once per call.
	EventCollision
	// EventMismatch means that Record belongs to another input.
	EventMismatch
	// EventLost means that the lease is lost, once per reservation. Reason says
	// whether the store said so or a whole lease passed without a renewal.
	EventLost
	// EventStale means that the result was refused because another owner has the
	// key, or somebody has settled it: evidence of a double run, unless a recovery hook
	// has found the result meanwhile.
	EventStale
	// EventUnguarded means that the action runs without a reservation.
	EventUnguarded
	// EventUnstored means that the result is returned but not stored, or that a key could
	// not be made held.
	EventUnstored
	// EventStorageError means that a store call failed, absorbed or not. Phase,
	// Class and Err are set.
	EventStorageError
	// EventActionEnded means that the action returned, or unwound when Err is
	// [ErrActionUnwound]. Duration is set, and Reason is [ReasonInterrupted] if the action gave
	// up because its caller had left.
	EventActionEnded
	// EventHeld means that the key is held from now on: the effect may have happened
	// and nobody knows. Record is the reservation that is held, with its Dispatch if it
	// has one; Reason says why. Somebody must find out, unless a recovery hook does.
	EventHeld
	// EventUnknown means that the call ends with [ErrOutcomeUnknown] for the sake of
	// Record, which is held.
	EventUnknown
)

// Reasons of EventLost, EventUnguarded, EventUnstored, EventHeld and EventActionEnded.
const (
	ReasonTaken    = "taken"     // lost: the store said that the key is not ours
	ReasonExpired  = "expired"   // lost: a whole lease without a renewal
	ReasonMaxHold  = "max_hold"  // lost: the action outlived the operation's limit
	ReasonInFlight = "in_flight" // unguarded: the Run mode
	ReasonDisabled = "disabled"  // unguarded: the kill switch is off
	ReasonStorage  = "storage"   // unguarded, unstored: the store failed
	ReasonTooLarge = "too_large" // unstored: over the size limit
	ReasonEncoding = "encoding"  // unstored: the codec failed

	ReasonPolicy     = "policy"      // held: the failure policy said so
	ReasonDispatched = "dispatched"  // held: the action failed after the dispatch, and no policy knows its error
	ReasonUnwound    = "unwound"     // held: the action panicked or exited after the dispatch
	ReasonUnstored   = "unstored"    // held: the result cannot be stored
	ReasonCannotTell = "cannot_tell" // held: the recovery hook could not find out
	ReasonAbandoned  = "abandoned"   // held: its owner's lease ran out after the dispatch

	ReasonInterrupted = "interrupted" // action ended: the caller had left
)

// Event is something that happened during a call.
type Event struct {
	Kind     EventKind
	Record   *Record
	Left     time.Duration // time left of Record, when it is another owner's
	Reason   string
	Phase    Phase
	Class    ErrorClass
	Err      error
	Duration time.Duration
}
