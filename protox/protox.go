// Package protox stores the results of operations as protobuf.
//
//	charge, err := guard.NewOperation[*pb.Receipt](g, "payment.charge", guard.WithCodec(protox.Codec()))
package protox

import (
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/onceguard/onceguard/guard"
)

// Codec returns the codec of operations whose results are pointers to generated
// protobuf messages. Any other result type is an error from [guard.NewOperation].
// Unknown fields of a message are kept, so that releases with different versions
// of a schema can share an operation. A nil message is replayed as nil.
//
// It is safe for use by many goroutines.
func Codec() guard.Codec { return codec{} }

// What is stored is one byte and, behind formMessage, the message.
const (
	formNil     = 'n'
	formMessage = 'm'
)

type codec struct{}

// Encoding is part of [guard.Codec].
func (codec) Encoding() string { return "protobuf" }

// CheckResult says at start-up whether results of this type can be stored.
func (codec) CheckResult(ptr any) error {
	if t := reflect.TypeOf(ptr); t == nil || t.Kind() != reflect.Pointer || !isMessage(t.Elem()) {
		return fmt.Errorf("codec protobuf: results are %T, not a pointer to a pointer to a generated message", ptr)
	}
	return nil
}

func isMessage(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Implements(reflect.TypeFor[proto.Message]())
}

// Marshal is part of [guard.Codec].
func (codec) Marshal(v any) ([]byte, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("codec protobuf: result is %T, not a message", v)
	}
	if reflect.ValueOf(message).IsNil() {
		return []byte{formNil}, nil
	}
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte{formMessage}, message)
}

// Unmarshal is part of [guard.Codec].
func (c codec) Unmarshal(data []byte, v any) error {
	if err := c.CheckResult(v); err != nil {
		return err
	}
	if len(data) == 0 {
		return errors.New("codec protobuf: the stored result is empty")
	}
	target := reflect.ValueOf(v).Elem()
	switch data[0] {
	case formNil:
		target.SetZero()
		return nil
	case formMessage:
		fresh := reflect.New(target.Type().Elem())
		if err := proto.Unmarshal(data[1:], fresh.Interface().(proto.Message)); err != nil {
			return err
		}
		target.Set(fresh)
		return nil
	default:
		return fmt.Errorf("codec protobuf: unknown form %q", data[0])
	}
}
