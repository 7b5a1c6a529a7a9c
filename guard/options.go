package guard

import (
	"context"
	"time"
)

// GuardOption configures a [Guard].
type GuardOption interface{ applyGuard(*guardConfig) }

// OperationOption configures one [Operation].
type OperationOption interface{ applyOperation(*settings) }

// CallOption configures one call.
type CallOption interface{ applyCall(*callConfig) }

// Option may be given to [New], where it is the default of every operation, and
// to [NewOperation].
type Option interface {
	GuardOption
	OperationOption
}

type guardConfig struct {
	observer Observer
	label    string
	defaults settings
}

type callConfig struct {
	hasInput    bool
	input       any
	fingerprint Fingerprint
	turn        *Turn
	waitAtMost  *time.Duration
	onWait      func(context.Context) (context.Context, func())
	reason      func(error) string
}

type option func(*settings)

func (o option) applyGuard(c *guardConfig)  { o(&c.defaults) }
func (o option) applyOperation(s *settings) { o(s) }

type operationOption func(*settings)

func (o operationOption) applyOperation(s *settings) { o(s) }

type guardOption func(*guardConfig)

func (o guardOption) applyGuard(c *guardConfig) { o(c) }

type callOption func(*callConfig)

func (o callOption) applyCall(c *callConfig) { o(c) }

// WithObserver sets who sees the guard's calls. Default: nobody.
func WithObserver(o Observer) GuardOption {
	return guardOption(func(c *guardConfig) { c.observer = o })
}

// WithOwnerLabel sets how this process calls itself in the records that it owns
// and so in the errors and logs of others. It decides nothing. Default: host and
// process id.
func WithOwnerLabel(label string) GuardOption {
	return guardOption(func(c *guardConfig) { c.label = label })
}

// WithLease sets how long a reservation lives without a renewal, and so how long
// the key of a dead owner stays blocked. It is renewed every third of it, so it
// need not cover the action. Default 30 s, between 10 ms and 24 h.
func WithLease(d time.Duration) Option {
	return option(func(s *settings) { s.lease = d })
}

// WithRetention sets how long a result is kept and replayed, whatever the lease.
// Default 24 h, between 1 ms and 10 years.
func WithRetention(d time.Duration) Option {
	return option(func(s *settings) { s.retention, s.retentionSet = d, true })
}

// WithStoreTimeout bounds each single call of the store. Default 1 s, or a third
// of the lease if that is shorter; at most a third of the lease, so that a
// renewal that hangs leaves time for another one.
func WithStoreTimeout(d time.Duration) Option {
	return option(func(s *settings) { s.storeTimeout, s.storeTimeoutSet = d, true })
}

// WithWaitBound sets how long a call waits for another owner, from its arrival.
// At the bound it asks for the key once more and then gets [ErrInProgress], also if
// the owner is well. Default one lease, between 1 ms and 24 h. It matters only with
// [Wait].
func WithWaitBound(d time.Duration) Option {
	return option(func(s *settings) { s.waitBound, s.waitBoundSet = d, true })
}

// WithMaxResultBytes limits the encoded result. A larger one is returned to its
// caller but not stored, and the key is freed, or held if the run was dispatched; so with
// an error that is to be remembered. Default 1 MiB, at most 64 MiB.
func WithMaxResultBytes(n int) Option {
	return option(func(s *settings) { s.maxResult = n })
}

// WithCodec sets how results become bytes. Default [JSON]. All processes that
// share an operation need the same codec: to the others its results are
// unreadable, see [OnUnreadable]. So is every stored result after a deployment that
// changes it.
func WithCodec(c Codec) Option {
	return option(func(s *settings) { s.codec = c })
}

// WithCipher encrypts results at rest, after the codec and before the store. All
// processes that share an operation need the same one; a result that it cannot
// decrypt is unreadable, see [OnUnreadable]. Default: results are stored as the
// codec leaves them.
func WithCipher(c Cipher) Option {
	return option(func(s *settings) { s.cipher, s.cipherSet = c, true })
}

// WithHashedKeys stores keys as their SHA-256, so that the store shows none: for
// keys that name a person. Who can guess a key can still find its record, unless the guard has
// [WithKeyHashSecret]. The stored name is "sha256-", or with such a secret "hmac-sha256-", and 64
// hexadecimal digits, of which the first 16 are the [KeyHash] of spans and logs. All
// processes that share an operation need the same setting.
func WithHashedKeys() Option {
	return option(func(s *settings) { s.hashKeys = true })
}

// StorageErrorMode says what a call does when the store fails before the action.
type StorageErrorMode string

const (
	// FailOpen runs the action unguarded: available, but a duplicate may run too.
	FailOpen StorageErrorMode = "fail_open"
	// FailClosed returns a [StorageError] and does not run the action.
	FailClosed StorageErrorMode = "fail_closed"
)

// OnStorageError sets what a call does when the store fails before the action.
// Once the action has run, a storage error never reaches the caller: it would
// make the caller repeat the effect. Default [FailOpen].
func OnStorageError(m StorageErrorMode) Option {
	return option(func(s *settings) { s.onStorageError = m })
}

// InFlightMode says what a call does when another owner runs the action.
type InFlightMode string

const (
	// Wait waits for the other owner's result and returns it. If the owner fails
	// or dies, one of those who wait takes the key and runs.
	Wait InFlightMode = "wait"
	// Refuse returns an [InProgressError] at once.
	Refuse InFlightMode = "refuse"
	// Run takes no reservation at all: it looks for a result, runs the action if
	// there is none, and stores the result if nobody else has the key by then. If
	// another one's result landed first, that one is returned. Duplicates that come
	// at the same time all run. It is for effects that bear repeating.
	Run InFlightMode = "run"
)

// OnInFlight sets what a call does when another owner runs the action. Default
// [Wait].
func OnInFlight(m InFlightMode) Option {
	return option(func(s *settings) { s.onInFlight = m })
}

// OnUnreadable sets what a call does with a stored result that its codec cannot
// decode: a key of an encryption that is gone, a type that changed. With [Run],
// the default, exactly one caller takes the key over from the record it saw, runs
// the action, and its result heals the key. With [Refuse] every call gets an
// [ErrStorage] of class encoding and nothing runs: for effects that must not
// happen twice. A record of a newer schema version is not unreadable: it counts
// as in flight.
func OnUnreadable(m InFlightMode) Option {
	return option(func(s *settings) { s.onUnreadable, s.onUnreadableSet = m, true })
}

// WithMaxHold ends the renewals of an action that still runs after d: it hangs, and its key becomes
// free a lease later, or held if the run was dispatched. The loss is reported then. Default 0:
// renewed for as long as the action runs.
func WithMaxHold(d time.Duration) Option {
	return option(func(s *settings) { s.maxHold, s.maxHoldSet = d, true })
}

// WithCancelOnLost cancels the action's context, with the cause [ErrLeaseLost],
// when the lease is lost. Default: the action carries on, since cutting a running
// payment short is worse than a late result.
func WithCancelOnLost() Option {
	return option(func(s *settings) { s.cancelOnLost = true })
}

// KeepReserved names the errors of an action that mean "not finished yet", such as the one of an
// asynchronous completion, and how long the key then stays reserved from now: at least a lease, at
// most 10 years. Nothing is released, and the outcome is pending. The error comes back unchanged.
// [Operation.Complete] ends such a run, with what [ReservationFromContext] has given the action; a
// later turn of the same job may take it over, see [WithTurn]. The run counts as dispatched, if the
// operation knows that. Default: every error is left to the failure policy, which without one
// releases the key. The function is called by many goroutines at once; if it panics, it has said
// no.
func KeepReserved(f func(error) (time.Duration, bool)) Option {
	return option(func(s *settings) { s.keepReserved, s.keepReservedSet = f, true })
}

// WithEnabled sets the kill switch for an incident: it is asked on every call, and while it says
// false every call runs its action unguarded, whatever its key and also if that is held, and is
// counted as such. The function is called by many goroutines at once and must not block. Default:
// always on.
func WithEnabled(f func() bool) Option {
	return option(func(s *settings) { s.enabled, s.enabledSet = f, true })
}

// WithInput gives the call's input, from which a fingerprint is made: the
// SHA-256 of its canonical JSON. The store shows that digest, and who can guess a
// small input can check the guess. A later call with the same key and another
// input is a mismatch and gets [ErrMismatch] instead of a result that is not
// its own. Default: no fingerprint, nothing is compared.
func WithInput(input any) CallOption {
	return callOption(func(c *callConfig) { c.hasInput, c.input = true, input })
}

// WithFingerprint gives a digest of the call's input that the caller made, for
// input that has no JSON form or is large. Fingerprints are compared only with
// those of the same algorithm, so give an own one a name of its own. It takes the
// place of [WithInput].
func WithFingerprint(f Fingerprint) CallOption {
	return callOption(func(c *callConfig) { c.fingerprint = f })
}

// WaitAtMost bounds how long this call waits for another owner, from its arrival, within the bound
// of [WithWaitBound]: for a caller that must be back before its own deadline with word of who has
// the key. At 0 or less the call does not wait: it gets [ErrInProgress] as with [Refuse]. Default:
// WithWaitBound alone. It matters only with [Wait].
func WaitAtMost(d time.Duration) CallOption {
	return callOption(func(c *callConfig) { c.waitAtMost = &d })
}

// OnWait takes part in the wait of a call, for adapters that must keep something alive meanwhile,
// or bound how many wait. The function is asked once, when the call is about to wait for another
// owner. It returns the context to wait with, made of the one that it is given, and what is called
// when the wait is over, whatever came of it, before the action runs. When that context ends before
// the caller's, the call ends as if the caller had left, with its cause. A nil context refuses: the
// call gets [ErrInProgress] as with [Refuse]. So does a panic. The action never sees that context.
// Calls that share the option ask the function concurrently; it must not block. Default: calls wait
// on their own.
func OnWait(f func(ctx context.Context) (waits context.Context, over func())) CallOption {
	return callOption(func(c *callConfig) { c.onWait = f })
}

// CancelReason names why the caller left, of a call that ends because its context, or the one of
// [OnWait], was canceled: the function gets the cause of that and returns a word of a small set, which
// observers get as [CallEnd.Reason]. An empty word leaves it unnamed; so does a panic. Calls that
// share the option ask the function concurrently. It decides nothing. Default: unnamed.
func CancelReason(f func(cause error) string) CallOption {
	return callOption(func(c *callConfig) { c.reason = f })
}
