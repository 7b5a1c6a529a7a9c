package guard

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

const (
	anOrderNumber   = "an order number"
	anOperationName = `"payment.charge", the kind of effect`
)

// MaxKeyBytes is the longest key and the longest operation name, in bytes.
const MaxKeyBytes = 255

// checkName says what is wrong with a key or an operation name; example is a good
// one.
func checkName(s, example string) error {
	switch {
	case s == "":
		return fmt.Errorf("it is empty: give one that stays the same over retries, such as %s", example)
	case len(s) > MaxKeyBytes:
		return fmt.Errorf("it has %d bytes, the limit is %d: use a digest of it", len(s), MaxKeyBytes)
	case !utf8.ValidString(s):
		return errors.New("it is not valid UTF-8: encode it, for example in hexadecimal")
	}
	for i, r := range s {
		if unicode.IsControl(r) {
			return fmt.Errorf("it has the control character %U at byte %d: remove or encode it", r, i)
		}
	}
	return nil
}

// stored is the key as the store sees it.
func (s *settings) stored(key Key) Key {
	if s.hashKeys {
		return s.keyHash.hashed(key)
	}
	return key
}

// newToken returns 128 random bits in hexadecimal.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}
