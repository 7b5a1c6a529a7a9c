package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// FingerprintSHA256JSON is the algorithm of fingerprints made by [WithInput]:
// SHA-256 of the input as JSON with sorted object keys, no white space and
// numbers as they were written.
const FingerprintSHA256JSON = "sha256-json"

// fingerprinted is the fingerprint that the options of a call ask for, if any.
func (c *callConfig) fingerprinted() (Fingerprint, error) {
	own := c.fingerprint
	switch {
	case own == (Fingerprint{}) && c.hasInput:
		return fingerprint(c.input)
	case (own.Algorithm == "") != (own.Digest == ""):
		return own, fmt.Errorf("%w: a fingerprint needs an algorithm and a digest, got %+q", ErrInvalidInput, own)
	default:
		return own, nil
	}
}

// fingerprint digests a call's input.
func fingerprint(input any) (Fingerprint, error) {
	text, err := canonical(input)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("%w: no fingerprint: the input has no JSON form: %w", ErrInvalidInput, err)
	}
	sum := sha256.Sum256(text)
	return Fingerprint{Algorithm: FingerprintSHA256JSON, Digest: hex.EncodeToString(sum[:])}, nil
}

// canonical is the input as JSON with sorted object keys, no white space and
// numbers as they were written.
func canonical(input any) (text []byte, err error) {
	err = safely(func() error {
		raw, err := json.Marshal(input)
		if err != nil {
			return err
		}
		if string(raw) == "{}" && showsNothing(reflect.TypeOf(input)) {
			return errors.New("it has no exported field, so that nothing would be compared")
		}
		var tree any
		if err := JSON().Unmarshal(raw, &tree); err != nil {
			return err
		}
		text, err = json.Marshal(tree)
		return err
	})
	return text, err
}

// differs reports whether two fingerprints can be compared and are not the same.
func (f Fingerprint) differs(other Fingerprint) bool {
	return f.Algorithm != "" && f.Algorithm == other.Algorithm && f.Digest != other.Digest
}
