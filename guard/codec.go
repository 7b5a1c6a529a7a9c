package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
)

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
// [json.Number] where the result type is an interface.
func JSON() Codec { return jsonCodec{} }

type jsonCodec struct{}

func (jsonCodec) Encoding() string { return "json" }

func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec) Unmarshal(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(v)
}

// safely turns a panic in the user's encoding methods into an error.
func safely(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do()
}
