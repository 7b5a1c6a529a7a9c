package temporalx

import (
	"errors"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
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
		c := newPayloadCodec(&outage{converter.GetDefaultDataConverter(), failures}, nil)
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
	c := newPayloadCodec(converter.GetDefaultDataConverter(), nil)
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

func TestErrorCodec_RejectsWhatItDidNotWrite(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]converter.DataConverter{
		"sound": converter.GetDefaultDataConverter(), "down": down{converter.GetDefaultDataConverter()},
	} {
		c := newPayloadCodec(data, nil).ErrorCodec()
		stored, err := c.Marshal(errors.New("declined"))
		if (err != nil) != (name == "down") {
			t.Errorf("%s: error %v", name, err)
		}
		for _, data := range [][]byte{nil, []byte("\xff"), stored[:len(stored)/2]} {
			var read error
			if err := c.Unmarshal(data, &read); err == nil {
				t.Errorf("%s: %q became %v, want an error", name, data, read)
			}
		}
	}
}

// down is a data converter that fails.
type down struct{ converter.DataConverter }

func (down) ToPayload(any) (*commonpb.Payload, error) {
	return nil, errors.New("the codec server is down")
}

func FuzzErrorCodec(f *testing.F) {
	c := newPayloadCodec(converter.GetDefaultDataConverter(), nil).ErrorCodec()
	stored, err := c.Marshal(temporal.NewApplicationError("no", "Declined", 1, "two"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(stored)
	f.Fuzz(func(t *testing.T, data []byte) {
		var read error
		if err := c.Unmarshal(data, &read); err == nil { // must not panic
			_ = read.Error()
		}
	})
}

func FuzzCodec(f *testing.F) {
	f.Add([]byte("n"))
	f.Add([]byte("v\n\x03\x12\x01x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newPayloadCodec(converter.GetDefaultDataConverter(), nil)
		var read outcome
		if err := c.Unmarshal(data, &read); err != nil {
			return
		}
		if read.stored != nil { // else it is decoded already
			_, _ = c.replay(c.data, *read.stored) // must not panic
		}
	})
}
