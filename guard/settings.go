package guard

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Defaults of the options of the same names.
const (
	DefaultLease          = 30 * time.Second
	DefaultRetention      = 24 * time.Hour
	DefaultStoreTimeout   = time.Second
	DefaultMaxResultBytes = 1 << 20
)

const (
	minLease     = 10 * time.Millisecond
	maxLease     = 24 * time.Hour
	minRetention = time.Millisecond
	maxRetention = 10 * 365 * 24 * time.Hour
	maxMaxResult = 64 << 20

	// renewalsPerLease is how often a lease is renewed before it would run out,
	// and so the least number of store timeouts that a lease must hold.
	renewalsPerLease = 3
)

// settings is what an operation does, after defaults and options.
type settings struct {
	lease          time.Duration
	retention      time.Duration
	storeTimeout   time.Duration
	waitBound      time.Duration
	maxResult      int
	codec          Codec
	cipher         Cipher // nil: no encryption
	hashKeys       bool
	keyHash        *keyHasher // nil: no secret; the same in all operations of a guard
	onStorageError StorageErrorMode
	onInFlight     InFlightMode
	onUnreadable   InFlightMode
	maxHold        time.Duration // 0: no limit
	cancelOnLost   bool
	keepReserved   func(error) (time.Duration, bool) // nil: every error releases
	enabled        func() bool                       // nil: always

	// Of outcomes that nobody knows.

	atMostOnce, markDispatch, payments                       bool
	onFailure                                                FailurePolicy // nil: every error is undecided
	recovery                                                 recovery      // nil: no hook
	errorCodec                                               ErrorCodec
	holdRetention, failureRetention, settle, recoveryTimeout time.Duration

	storeTimeoutSet, waitBoundSet, maxHoldSet, cipherSet, keepReservedSet, enabledSet, onUnreadableSet, retentionSet bool
	onFailureSet, errorCodecSet, holdRetentionSet, failureRetentionSet, settleSet, recoveryTimeoutSet                bool
}

func defaultSettings() settings {
	return settings{
		lease:          DefaultLease,
		retention:      DefaultRetention,
		maxResult:      DefaultMaxResultBytes,
		codec:          JSON(),
		onStorageError: FailOpen,
		onInFlight:     Wait,
		onUnreadable:   Run,
		errorCodec:     NamedErrors(nil),
		holdRetention:  DefaultHoldRetention,
	}
}

// resolve fills in the settings that follow from others and checks all.
func (s *settings) resolve() error {
	if !s.storeTimeoutSet {
		s.storeTimeout = min(DefaultStoreTimeout, s.lease/renewalsPerLease)
	}
	if !s.waitBoundSet {
		s.waitBound = s.lease
	}
	s.resolveHolds()
	return s.validate()
}

// validate joins every fault, so that one run of the program shows them all.
func (s *settings) validate() error {
	faults := []error{
		within("lease", s.lease, minLease, maxLease),
		within("retention", s.retention, minRetention, maxRetention),
		within("wait bound", s.waitBound, time.Millisecond, maxLease),
		within("result size limit in bytes", s.maxResult, 1, maxMaxResult),
		s.checkStoreTimeout(),
		oneOf("OnStorageError", s.onStorageError, FailOpen, FailClosed),
		oneOf("OnInFlight", s.onInFlight, Wait, Refuse, Run),
		oneOf("OnUnreadable", s.onUnreadable, Run, Refuse),
		s.checkHolds(),
		s.keyHash.check(),
	}
	if s.maxHoldSet && s.maxHold <= 0 {
		faults = append(faults, fmt.Errorf("max hold %s: must be positive; leave WithMaxHold out for no limit", s.maxHold))
	}
	if s.cipherSet && (s.cipher == nil || s.cipher.Name() == "") {
		faults = append(faults, errors.New("cipher is nil or has no name: leave WithCipher out for no encryption"))
	}
	if s.keepReservedSet && s.keepReserved == nil {
		faults = append(faults, errors.New("KeepReserved is nil: leave it out, and every error releases"))
	}
	if s.enabledSet && s.enabled == nil {
		faults = append(faults, errors.New("WithEnabled is nil: leave it out, and the guard is always on"))
	}
	if s.codec == nil {
		faults = append(faults, errors.New("codec is nil: leave WithCodec out for JSON"))
	} else if s.codec.Encoding() == "" {
		faults = append(faults, errors.New("codec has an empty encoding name: records need it"))
	}
	return errors.Join(faults...)
}

// checkUseful finds what was set for one operation and has no meaning in its mode.
// The same set for a whole guard is a default for the operations that it suits.
func (s *settings) checkUseful(mode InFlightMode) error {
	var faults []error
	useless := func(is bool, option string) {
		if is {
			faults = append(faults, fmt.Errorf("%s has no meaning with OnInFlight(%q): leave it out", option, mode))
		}
	}
	useless(s.waitBoundSet && mode != Wait, "WithWaitBound")
	useless(s.maxHoldSet && mode == Run, "WithMaxHold")
	useless(s.cancelOnLost && mode == Run, "WithCancelOnLost")
	return errors.Join(faults...)
}

func (s *settings) checkStoreTimeout() error {
	if s.storeTimeout <= 0 {
		if !s.storeTimeoutSet {
			return nil // follows from the lease, whose fault is told already
		}
		return fmt.Errorf("store timeout %s: must be positive", s.storeTimeout)
	}
	if s.lease/renewalsPerLease < s.storeTimeout {
		return fmt.Errorf("lease %s: shorter than %d × store timeout %s", s.lease, renewalsPerLease, s.storeTimeout)
	}
	return nil
}

func within[N int | time.Duration](name string, v, low, high N) error {
	if v < low {
		return fmt.Errorf("%s %v: less than %v", name, v, low)
	}
	if v > high {
		return fmt.Errorf("%s %v: more than %v", name, v, high)
	}
	return nil
}

func oneOf[S ~string](name string, v S, allowed ...S) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	return fmt.Errorf("%s %q: must be one of %q", name, v, allowed)
}

// faults are what is wrong with options, one after the other.
type faults []error

func (f *faults) wrong(is bool, text string) {
	if is {
		*f = append(*f, errors.New(text))
	}
}
