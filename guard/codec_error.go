package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrorCodec turns remembered errors into bytes and back. It is used by many
// goroutines at once. What a cipher encrypts of results it encrypts of errors too.
type ErrorCodec interface {
	// Encoding names the form of the bytes, as that of [Codec].
	Encoding() string
	// Marshal encodes an error. If it fails, the error is not remembered.
	Marshal(remembered error) ([]byte, error)
	// Unmarshal sets the error that is returned in place of the one that was encoded.
	Unmarshal(data []byte, remembered *error) error
}

// StoredError is what the default codec makes of a remembered error.
type StoredError struct {
	// Kind is the name of the error in [NamedErrors], else what its method
	// ErrorKind() string says, else its Go type.
	Kind    string
	Message string
	known   error
}

func (e *StoredError) Error() string { return e.Message }

// Unwrap returns the error that [NamedErrors] has under Kind, if any.
func (e *StoredError) Unwrap() error { return e.known }

// NamedErrors is the codec that stores the kind and the message of an error and
// returns a [StoredError]. An error that is one of the known, by [errors.Is], is found by
// errors.Is afterwards too, in every process that knows the same name. Of several that
// match, the one whose name comes first in the alphabet counts. A nil map is the default.
func NamedErrors(known map[string]error) ErrorCodec { return namedErrors(maps.Clone(known)) }

type namedErrors map[string]error

type storedError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func (namedErrors) Encoding() string { return "error-json" }

func (n namedErrors) Marshal(remembered error) ([]byte, error) {
	return json.Marshal(storedError{Kind: n.kind(remembered), Message: remembered.Error()})
}

func (n namedErrors) kind(remembered error) string {
	for _, name := range slices.Sorted(maps.Keys(n)) {
		if n[name] != nil && errors.Is(remembered, n[name]) {
			return name
		}
	}
	if kinded, ok := errors.AsType[interface {
		error
		ErrorKind() string
	}](remembered); ok {
		return kinded.ErrorKind()
	}
	return fmt.Sprintf("%T", remembered)
}

func (n namedErrors) Unmarshal(data []byte, remembered *error) error {
	var stored storedError
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*remembered = &StoredError{Kind: stored.Kind, Message: stored.Message, known: n[stored.Kind]}
	return nil
}

// errorEncoding names how an operation's errors become bytes.
func (s *settings) errorEncoding() string { return s.enciphered(s.errorCodec.Encoding()) }

// sealError turns an error into the bytes that are stored.
func (s *settings) sealError(key Key, remembered error) ([]byte, error) {
	data, err := s.errorCodec.Marshal(remembered)
	if err != nil {
		return nil, err
	}
	return s.encrypt(key, data)
}

// openError undoes sealError.
func (s *settings) openError(key Key, data []byte) (remembered, err error) {
	if data, err = s.decrypt(key, data); err != nil {
		return nil, err
	}
	if err = s.errorCodec.Unmarshal(data, &remembered); err == nil && remembered == nil {
		err = errors.New("the error codec returned no error")
	}
	return remembered, err
}
