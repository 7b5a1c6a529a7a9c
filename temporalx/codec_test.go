package temporalx

import (
	"errors"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
)

// outage is a data converter whose remote codec is down at times.
type outage struct {
	converter.DataConverter
	down int // how many more calls fail
}

func (o *outage) ToPayloads(v ...any) (*commonpb.Payloads, error) {
	if o.down > 0 {
		o.down--
		return nil, errors.New("the codec server is down")
	}
	return o.DataConverter.ToPayloads(v...)
}

func TestCodec_DoesNotTakeAnOutageForAConverterWithoutRawValues(t *testing.T) {
	t.Parallel()
	for failures := range 4 {
		c := newPayloadCodec(&outage{converter.GetDefaultDataConverter(), failures})
		s, err := outcome{value: "x", converter: converter.GetDefaultDataConverter()}.toStored()
		if err != nil {
			t.Fatal(err)
		}
		value, err := c.replay(c.data, s)
		if _, raw := value.(converter.RawValue); !raw && err == nil {
			t.Errorf("%d failures: replay is a %T, want a RawValue or an error", failures, value)
		}
		if value, err = c.replay(c.data, s); failures < 3 && err != nil {
			t.Errorf("%d failures: %T, error %v after the outage", failures, value, err)
		}
	}
}

func TestCodec_RejectsWhatItDidNotWrite(t *testing.T) {
	t.Parallel()
	c := newPayloadCodec(converter.GetDefaultDataConverter())
	for _, data := range []string{"", "v\xff", "?"} {
		var read outcome
		err := c.Unmarshal([]byte(data), &read)
		if err == nil {
			_, err = c.replay(c.data, *read.stored)
		}
		if err == nil {
			t.Errorf("%q: no error", data)
		}
	}
	if _, err := c.Marshal("x"); err == nil {
		t.Error("stored a result that no activity made")
	}
	if err := c.Unmarshal([]byte("n"), new(string)); err == nil {
		t.Error("read a result into a string")
	}
}

func FuzzCodec(f *testing.F) {
	f.Add([]byte("n"))
	f.Add([]byte("v\n\x03\x12\x01x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newPayloadCodec(converter.GetDefaultDataConverter())
		var read outcome
		if err := c.Unmarshal(data, &read); err != nil {
			return
		}
		_, _ = c.replay(c.data, *read.stored) // must not panic
	})
}
