package temporalx_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// encrypting is a data converter as people use it in production: the SDK's,
// with AES-GCM as its codec and a new key in each.
func encrypting(t *testing.T) converter.DataConverter {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), aesCodec{sealer})
}

type aesCodec struct{ cipher.AEAD }

const encrypted = "binary/encrypted"

func (c aesCodec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return eachPayload(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		plain, err := proto.Marshal(p)
		return &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encrypted)},
			Data:     c.Seal(nil, nil, plain, nil),
		}, err
	})
}

func (c aesCodec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return eachPayload(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encrypted {
			return p, nil
		}
		plain, err := c.Open(nil, nil, p.GetData(), nil)
		if err != nil {
			return nil, err
		}
		opened := &commonpb.Payload{}
		return opened, proto.Unmarshal(plain, opened)
	})
}

func eachPayload(
	payloads []*commonpb.Payload, do func(*commonpb.Payload) (*commonpb.Payload, error),
) ([]*commonpb.Payload, error) {
	done := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		var err error
		if done[i], err = do(p); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// plainConverter is a data converter that somebody wrote by hand: sound, but it
// has never heard of RawValue.
type plainConverter struct{ converter.DataConverter }

func newPlainConverter() converter.DataConverter {
	return plainConverter{converter.NewCompositeDataConverter(
		converter.NewNilPayloadConverter(), converter.NewByteSlicePayloadConverter(), handWritten{})}
}

func (c plainConverter) ToPayload(v any) (*commonpb.Payload, error) {
	if _, raw := v.(converter.RawValue); raw {
		return nil, errors.New("cannot encode a RawValue")
	}
	return c.DataConverter.ToPayload(v)
}

func (c plainConverter) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	all := &commonpb.Payloads{}
	for _, v := range values {
		p, err := c.ToPayload(v)
		if err != nil {
			return nil, err
		}
		all.Payloads = append(all.Payloads, p)
	}
	return all, nil
}

func (c plainConverter) FromPayload(p *commonpb.Payload, ptr any) error {
	if _, raw := ptr.(*converter.RawValue); raw {
		return errors.New("cannot decode into a RawValue")
	}
	return c.DataConverter.FromPayload(p, ptr)
}

func (c plainConverter) FromPayloads(payloads *commonpb.Payloads, ptrs ...any) error {
	for i, p := range payloads.GetPayloads() {
		if i >= len(ptrs) {
			break
		}
		if err := c.FromPayload(p, ptrs[i]); err != nil {
			return err
		}
	}
	return nil
}

type handWritten struct{}

func (handWritten) Encoding() string { return "json/hand-written" }

func (h handWritten) ToPayload(v any) (*commonpb.Payload, error) {
	data, err := json.Marshal(v)
	return &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(h.Encoding())}, Data: data,
	}, err
}

func (handWritten) FromPayload(p *commonpb.Payload, ptr any) error {
	return json.Unmarshal(p.GetData(), ptr)
}

func (handWritten) ToString(p *commonpb.Payload) string { return string(p.GetData()) }
