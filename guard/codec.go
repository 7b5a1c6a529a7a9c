package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Codecs may have a method CheckResult(ptr any) error. It gets a pointer to a
// zero value of the operation's result type, and its error is one of
// [NewOperation]: a codec that cannot carry the type says so at start-up.
type resultChecker interface{ CheckResult(ptr any) error }

// Codecs may have a method ErrorCodec() ErrorCodec: that of the errors that belong to
// their results, as an adapter has it that must not leave the choice to its user. It
// takes the place of the guard's own and of a default; [WithErrorCodec] for the
// operation is an error then.
type errorCodecOwner interface{ ErrorCodec() ErrorCodec }

// Codecs may have a method SameResult(earlier []byte, v any) (bool, error), for results that are not
// the same bytes each time. It gets what Marshal has made of an earlier result, and a value of the
// operation's result type. Without it a completion is a repeat of another one if their bytes are the
// same, see [Operation.Complete].
type resultComparer interface {
	SameResult(earlier []byte, v any) (bool, error)
}

// Codec turns results into bytes and back. It is used by many goroutines at
// once.
type Codec interface {
	// Encoding names the form of the bytes. It is written into each record, and
	// a record with another name is not decoded.
	Encoding() string
	// Marshal encodes a result. An error leaves the result unstored.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes into v, a pointer to the operation's result type.
	Unmarshal(data []byte, v any) error
}

// JSON is the default codec: encoding/json, with numbers kept exact as
// [json.Number] where the result type is an interface. A replay is what
// encoding/json makes of the result: fields that are not exported are lost, and
// bytes of a string that are no UTF-8 become U+FFFD. Result types that it can
// write but never read are an error from [NewOperation].
func JSON() Codec { return jsonCodec{} }

type jsonCodec struct{}

func (jsonCodec) Encoding() string { return "json" }

func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Unmarshal(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// Bytes is the codec of operations whose results are []byte: they are stored as
// they are. A nil slice is replayed as an empty one.
func Bytes() Codec { return bytesCodec{} }

type bytesCodec struct{}

func (bytesCodec) Encoding() string { return "bytes" }

func (bytesCodec) CheckResult(ptr any) error {
	if _, ok := ptr.(*[]byte); !ok {
		return fmt.Errorf("codec Bytes: results are %T, not *[]byte", ptr)
	}
	return nil
}

func (c bytesCodec) Marshal(v any) ([]byte, error) {
	data, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("codec Bytes: result is %T, not []byte", v)
	}
	return data, nil
}

func (c bytesCodec) Unmarshal(data []byte, v any) error {
	if err := c.CheckResult(v); err != nil {
		return err
	}
	*v.(*[]byte) = append([]byte{}, data...)
	return nil
}

// Cipher encrypts results at rest: the seam for AES-GCM, a KMS or a vault. It is
// used by many goroutines at once. The key is given to be authenticated with the
// result, so that a record copied under another key does not decrypt; it must not
// be relied on to be secret.
type Cipher interface {
	// Name is written into each record behind the codec's, and a record with
	// another name is not decrypted. It must stay the same when the secret is
	// changed: put the version of the secret into the ciphertext, and keep the old
	// secrets for as long as results are kept.
	Name() string
	Encrypt(key Key, plaintext []byte) ([]byte, error)
	Decrypt(key Key, ciphertext []byte) ([]byte, error)
}

// encoding names how an operation's results become bytes.
func (s *settings) encoding() string { return s.enciphered(s.codec.Encoding()) }

// seal turns a result into the bytes that are stored.
func (s *settings) seal(key Key, result any) ([]byte, error) {
	data, err := s.codec.Marshal(result)
	if err != nil {
		return nil, err
	}
	return s.encrypt(key, data)
}

// open undoes seal.
func (s *settings) open(key Key, data []byte, result any) error {
	data, err := s.decrypt(key, data)
	if err != nil {
		return err
	}
	return s.codec.Unmarshal(data, result)
}

// enciphered is the name of an encoding with that of the cipher, if there is one.
func (s *settings) enciphered(encoding string) string {
	if s.cipher == nil {
		return encoding
	}
	return encoding + "+" + s.cipher.Name()
}

func (s *settings) encrypt(key Key, data []byte) ([]byte, error) {
	if s.cipher == nil {
		return data, nil
	}
	return s.cipher.Encrypt(key, data)
}

func (s *settings) decrypt(key Key, data []byte) ([]byte, error) {
	if s.cipher == nil {
		return data, nil
	}
	return s.cipher.Decrypt(key, data)
}

// safely turns a panic in the user's encoding methods into an error.
func safely(do func() error) (err error) {
	defer recovered(&err)
	return do()
}
