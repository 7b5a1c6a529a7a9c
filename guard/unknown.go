package guard

import (
	"errors"
	"fmt"
	"time"
)

// Disposition says what becomes of the key when the action has failed.
type Disposition string

const (
	// Undecided means that the policy does not know the error: the key is released if
	// nothing was dispatched, else held.
	Undecided Disposition = ""
	// Release means that nothing has happened: the key is free, and a retry runs.
	Release Disposition = "release"
	// Remember means that the failure is definite, such as a declined card: the error
	// is stored and returned to later calls, see [RememberedError].
	Remember Disposition = "remember"
	// Hold means that nobody knows whether the effect has happened: the key is
	// blocked. A later call asks the recovery hook, or gets [ErrOutcomeUnknown]. In an
	// operation with FailOpen a call that the store does not answer runs all the same.
	Hold Disposition = "hold"
)

// FailurePolicy says what an error of the action means. Dispatched tells whether
// the effect may have been let out: the whole run counts with [AtMostOnce] and
// [WithRecovery], what follows [Dispatched] with [MarkDispatch], and nothing else. It
// is not asked about panics and [runtime.Goexit]: they leave the key as Undecided does,
// and so does a policy that panics. It is called by many goroutines at once.
type FailurePolicy func(err error, dispatched bool) Disposition

// DefaultHoldRetention is how long a key stays held when [WithHoldRetention] is not
// given.
const DefaultHoldRetention = 30 * 24 * time.Hour

// OnFailure sets what becomes of the key when the action fails. The caller gets the
// action's error in any case. Default: every error is [Undecided].
func OnFailure(policy FailurePolicy) Option {
	return option(func(s *settings) { s.onFailure, s.onFailureSet = policy, true })
}

// AtMostOnce makes every run count as dispatched from its reservation on: when its
// owner dies, or the action fails in a way that the failure policy does not know, the
// key is not free again but held, and later calls get [ErrOutcomeUnknown] until it is
// settled. It costs no call of the store. It needs FailClosed, a mode other than
// [Run], and a store that is a [Holder]. A result that cannot be read refuses, as with
// OnUnreadable(Refuse). It holds for as long as the store keeps its records: results
// for their retention, all else for [WithHoldRetention].
func AtMostOnce() Option {
	return option(func(s *settings) { s.atMostOnce = true })
}

// MarkDispatch makes a run count as dispatched only once its action has called
// [Dispatched], which costs a call of the store: an owner that dies before it leaves a
// key that is free a lease later. From the mark on it is [AtMostOnce], or
// [WithRecovery] if that is given. An action that forgets the call is protected by
// neither.
func MarkDispatch() Option {
	return option(func(s *settings) { s.markDispatch = true })
}

// WithHoldRetention sets how long held keys stay blocked, and how long the records of
// owners that died after the dispatch are kept, after the last sign of life (the
// latter no shorter than a result, see [WithRetention]). After that a call runs again.
// All processes that share an operation need the same: who takes over keeps the evidence
// for its own. Default [DefaultHoldRetention], at least a lease, at most 10 years.
func WithHoldRetention(d time.Duration) Option {
	return option(func(s *settings) { s.holdRetention, s.holdRetentionSet = d, true })
}

// WithFailureRetention sets how long a remembered error is kept and returned. Default:
// as long as a result, see [WithRetention], but no longer than 24 h.
func WithFailureRetention(d time.Duration) Option {
	return option(func(s *settings) { s.failureRetention, s.failureRetentionSet = d, true })
}

// WithErrorCodec sets how remembered errors become bytes. Default NamedErrors(nil).
func WithErrorCodec(c ErrorCodec) Option {
	return option(func(s *settings) { s.errorCodec, s.errorCodecSet = c, true })
}

// ForPayments is the preset for effects that must not happen twice: FailClosed,
// OnUnreadable(Refuse), results kept as long as held keys (30 days, see
// [WithHoldRetention]) whatever the guard's default is, and the choice
// between [AtMostOnce] and [WithRecovery] made a duty, so that an error which
// [OnFailure] does not name, a crash and a result that cannot be stored hold the key.
// Name the definite errors, such as a declined card, with OnFailure: without, they hold
// the key too. Options after it may add to it; those that contradict it are an error. While the
// kill switch of [WithEnabled] is off nothing is protected, held keys included.
func ForPayments() Option { return payments{} }

type payments struct{}

func (payments) applyGuard(c *guardConfig) {
	c.defaults.retentionSet = false // of before: the preset goes before a default
	payments{}.applyOperation(&c.defaults)
}

func (payments) applyOperation(s *settings) {
	s.payments = true
	s.onStorageError = FailClosed
	s.onUnreadable, s.onUnreadableSet = Refuse, true
}

// recovers reports whether a recovery hook is set.
func (s *settings) recovers() bool { return s.recovery != nil }

// protects reports whether runs can count as dispatched.
func (s *settings) protects() bool { return s.atMostOnce || s.markDispatch || s.recovers() }

// holds reports whether the operation may hold a key or remember an error.
func (s *settings) holds() bool { return s.protects() || s.onFailure != nil }

// dispatchesAtOnce reports whether a reservation is dispatched from the start.
func (s *settings) dispatchesAtOnce() bool { return s.protects() && !s.markDispatch }

// resolveHolds fills in what follows from other settings.
func (s *settings) resolveHolds() {
	if s.payments && !s.retentionSet {
		s.retention = s.holdRetention
	}
	if !s.settleSet {
		s.settle = s.lease
	}
	if !s.recoveryTimeoutSet {
		s.recoveryTimeout = s.lease
	}
	if !s.failureRetentionSet {
		s.failureRetention = min(s.retention, DefaultRetention)
	}
	if s.protects() && !s.onUnreadableSet {
		s.onUnreadable = Refuse
	}
	if owner, ok := s.codec.(errorCodecOwner); ok {
		s.errorCodec = owner.ErrorCodec()
	}
}

// checkHolds finds what makes no sense for any operation.
func (s *settings) checkHolds() error {
	faults := []error{
		within("hold retention", s.holdRetention, max(s.lease, minRetention), maxRetention),
		within("failure retention", s.failureRetention, minRetention, maxRetention),
		within("settle time", s.settle, 0, s.holdRetention),
		within("recovery timeout", s.recoveryTimeout, time.Millisecond, maxLease),
	}
	if s.onFailureSet && s.onFailure == nil {
		faults = append(faults, errors.New("OnFailure is nil: leave it out, and every error is undecided"))
	}
	if s.errorCodec == nil || s.errorCodec.Encoding() == "" {
		faults = append(faults, errors.New("error codec is nil or has no encoding name: leave WithErrorCodec out for the default"))
	}
	return errors.Join(faults...)
}

// checkProtection finds what would let an effect happen twice that is to happen at
// most once, in the words of the option that asks for it.
func (s *settings) checkProtection(store Store) error {
	var faults faults
	_, holder := store.(Holder)
	faults.wrong(s.recovers() && s.holdRetention < 2*s.settle+s.lease, fmt.Sprintf("hold retention %s: shorter than a lease and twice the settle time "+
		"of %s, so the key may be free before the recovery hook is asked: make it longer", s.holdRetention, s.settle))
	faults.wrong(s.payments && !s.atMostOnce && !s.recovers(), "ForPayments: how a run that nobody knows the end of is treated is missing: "+
		"add AtMostOnce() or, better, a recovery hook that asks the provider (WithRecovery, or what an adapter has in its place)")
	faults.wrong(s.holds() && !holder, "AtMostOnce, MarkDispatch, WithRecovery and OnFailure need a store that is a guard.Holder; "+
		storeName(store)+" is not: use redisx or NewMemoryStore, or leave these options out")
	faults.wrong((s.protects() || s.payments) && s.onStorageError == FailOpen, "AtMostOnce, MarkDispatch, WithRecovery and ForPayments do not go with "+
		"OnStorageError(FailOpen): a call that the store does not answer would run beside another one: "+
		"add OnStorageError(FailClosed)")
	faults.wrong(s.holds() && s.onInFlight == Run, "AtMostOnce, MarkDispatch, WithRecovery and OnFailure do not go with "+
		"OnInFlight(Run), which takes no reservation: use Wait or Refuse")
	faults.wrong((s.protects() || s.payments) && s.onUnreadable == Run, "AtMostOnce, MarkDispatch, WithRecovery and ForPayments do not go with "+
		"OnUnreadable(Run): a result that cannot be read would be run again: use OnUnreadable(Refuse), or leave it out")
	return errors.Join(faults...)
}

// checkHoldsUseful finds what was set for one operation and has no meaning in it.
func (s *settings) checkHoldsUseful(own settings) error {
	var faults []error
	useless := func(is bool, option, without string) {
		if is {
			faults = append(faults, errors.New(option+" has no meaning without "+without+": add that or leave it out"))
		}
	}
	useless(own.settleSet && !s.recovers(), "WithSettleTime", "WithRecovery")
	useless(own.recoveryTimeoutSet && !s.recovers(), "WithRecoveryTimeout", "WithRecovery")
	useless(own.failureRetentionSet && s.onFailure == nil, "WithFailureRetention", "OnFailure")
	useless(own.errorCodecSet && s.onFailure == nil, "WithErrorCodec", "OnFailure")
	if _, ok := s.codec.(errorCodecOwner); ok && own.errorCodecSet {
		faults = append(faults, fmt.Errorf("WithErrorCodec: codec %q encodes errors too: leave it out", s.codec.Encoding()))
	}
	useless(own.holdRetentionSet && !s.holds(), "WithHoldRetention", "AtMostOnce, MarkDispatch, WithRecovery or OnFailure")
	return errors.Join(faults...)
}
