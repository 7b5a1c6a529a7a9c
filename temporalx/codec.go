package temporalx

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// outcome is what an activity returned, or what an earlier run has stored.
type outcome struct {
	value     any
	converter converter.DataConverter // of the call, to store the value with
	stored    *stored                 // set when the outcome was read from the store
}

// stored is a result in the store: its form and, as protobuf, its payloads.
type stored struct {
	form     form
	payloads *commonpb.Payloads
}

// form says what the worker makes of a result. It is the first byte of the
// stored bytes.
type form byte

const (
	formNone     form = 'n' // no payload: the activity returns only an error, or a nil pointer
	formValue    form = 'v' // a value that went through the data converter
	formPayloads form = 'p' // payloads that the activity made, which the SDK sends as they are
)

// payloadCodec stores results as the payloads that the data converter makes.
// A converter that needs the activity's context reads one back in two steps: the
// guard's part, Unmarshal, parses; replay, which knows the context, decodes.
type payloadCodec struct {
	data      converter.DataConverter
	errors    failureCodec
	rawValues atomic.Int32 // whether data passes RawValues: yes, no, or 0 for not known yet
}

const (
	yes = 1
	no  = 2
)

// newPayloadCodec takes nil for no failure converter.
func newPayloadCodec(data converter.DataConverter, failures converter.FailureConverter) *payloadCodec {
	return &payloadCodec{data: data, errors: failureCodec{data: data, own: failures}}
}

// contextAware is what is needed here of the SDK's interface of that name, which is not
// in the same package in all of its versions.
type contextAware interface {
	WithContext(ctx context.Context) converter.DataConverter
}

// bind gives the converter the activity's context, where a tenant's key may be.
func (c *payloadCodec) bind(ctx context.Context) converter.DataConverter {
	if aware, ok := c.data.(contextAware); ok {
		return aware.WithContext(ctx)
	}
	return c.data
}

// Encoding is part of [guard.Codec].
func (c *payloadCodec) Encoding() string { return "temporal-payloads" }

// Marshal is part of [guard.Codec].
func (c *payloadCodec) Marshal(v any) ([]byte, error) {
	result, ok := v.(outcome)
	if !ok {
		return nil, fmt.Errorf("a result of type %T: only activity results can be stored", v)
	}
	s, err := result.toStored()
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend([]byte{byte(s.form)}, s.payloads)
}

// toStored does what the SDK does with the result of an activity.
func (o outcome) toStored() (stored, error) {
	if o.value == nil {
		return stored{form: formNone}, nil
	}
	if payloads, ok := o.value.(*commonpb.Payloads); ok {
		return stored{form: formPayloads, payloads: payloads}, nil
	}
	payloads, err := o.converter.ToPayloads(o.value)
	if err != nil {
		return stored{}, err
	}
	if payloads == nil {
		return stored{form: formNone}, nil
	}
	return stored{form: formValue, payloads: payloads}, nil
}

// Unmarshal is part of [guard.Codec].
func (c *payloadCodec) Unmarshal(data []byte, v any) error {
	result, ok := v.(*outcome)
	if !ok {
		return fmt.Errorf("a result of type %T: only activity results can be read", v)
	}
	if len(data) == 0 {
		return errors.New("the stored result is empty")
	}
	s := stored{form: form(data[0]), payloads: &commonpb.Payloads{}}
	if err := proto.Unmarshal(data[1:], s.payloads); err != nil {
		return err
	}
	if _, aware := c.data.(contextAware); aware {
		*result = outcome{stored: &s} // the interceptor decodes it, with the activity's context
		return nil
	}
	value, err := c.replay(c.data, s)
	if err != nil {
		return err
	}
	*result = outcome{value: value}
	return nil
}

// SameResult tells [guard.Operation.Complete] whether a completion is the one that came before: an
// encrypting converter makes other bytes each time.
func (c *payloadCodec) SameResult(earlier []byte, v any) (bool, error) {
	result, ok := v.(outcome)
	if !ok || len(earlier) == 0 {
		return false, fmt.Errorf("a result of type %T: only activity results can be compared", v)
	}
	was := stored{form: form(earlier[0]), payloads: &commonpb.Payloads{}}
	if err := proto.Unmarshal(earlier[1:], was.payloads); err != nil {
		return false, err
	}
	is, err := result.toStored()
	if err != nil || was.form != is.form {
		return false, err
	}
	if was.form != formValue {
		return proto.Equal(was.payloads, is.payloads) || was.form == formNone, nil
	}
	a, err := c.bare(result.converter, was.payloads)
	if err != nil {
		return false, err
	}
	b, err := c.bare(result.converter, is.payloads)
	return proto.Equal(a, b), err
}

// bare is a value as it is before the codec of its converter, if that can be had.
func (c *payloadCodec) bare(data converter.DataConverter, payloads *commonpb.Payloads) (proto.Message, error) {
	value, err := c.replay(data, stored{form: formValue, payloads: payloads})
	if raw, ok := value.(converter.RawValue); ok {
		return raw.Payload(), err
	}
	return payloads, err
}

// replay returns what makes the worker send the stored result again. A value is
// taken out of its codec (the worker's converter puts it in again, with this
// activity's context and today's encryption key), but not out of its payload.
func (c *payloadCodec) replay(data converter.DataConverter, s stored) (any, error) {
	switch s.form {
	case formNone:
		return nil, nil
	case formPayloads:
		return s.payloads, nil
	case formValue:
	default:
		return nil, fmt.Errorf("unknown form %q", byte(s.form))
	}
	passes, err := c.passesRawValues(data)
	if err != nil {
		return nil, err
	}
	if !passes {
		return s.payloads, nil
	}
	var raw converter.RawValue
	if err := data.FromPayloads(s.payloads, &raw); err != nil {
		return nil, err
	}
	if raw.Payload() == nil {
		return nil, errors.New("the data converter made nothing of the stored payload")
	}
	return raw, nil
}

// passesRawValues finds out, once, whether the converter passes RawValues
// through as its interface demands. One that does not may still be sound; one
// that fails on everything has a fault that may pass, such as a remote codec
// that is down, and is asked again next time.
func (c *payloadCodec) passesRawValues(data converter.DataConverter) (bool, error) {
	if known := c.rawValues.Load(); known != 0 {
		return known == yes, nil
	}
	if passesRawValue(data) {
		c.rawValues.Store(yes)
		return true, nil
	}
	if err := passesString(data); err != nil {
		return false, fmt.Errorf("the data converter does not work: %w", err)
	}
	if passesRawValue(data) { // the first time it was a fault that has passed
		return true, nil
	}
	c.rawValues.Store(no)
	return false, nil
}

const probe = "onceguard"

func passesRawValue(data converter.DataConverter) bool {
	want := &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingBinary)},
		Data:     []byte(probe),
	}
	payloads, err := data.ToPayloads(converter.NewRawValue(want))
	if err != nil {
		return false
	}
	var raw converter.RawValue
	err = data.FromPayloads(payloads, &raw)
	return err == nil && proto.Equal(raw.Payload(), want)
}

func passesString(data converter.DataConverter) error {
	payloads, err := data.ToPayloads(probe)
	if err != nil {
		return err
	}
	var got string
	return data.FromPayloads(payloads, &got)
}
