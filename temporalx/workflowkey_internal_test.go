package temporalx

import (
	"errors"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/onceguard/onceguard/guard"
)

func TestHeader_HasTheKeyThatWasSetOrIsWrong(t *testing.T) {
	t.Parallel()
	payload := func(v any) *commonpb.Payload {
		p, err := converter.GetDefaultDataConverter().ToPayload(v)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, test := range map[string]struct {
		payload *commonpb.Payload
		set     setKey
		ok, bad bool
	}{
		"none":           {},
		"a key":          {payload(setKey{Key: "k"}), setKey{Key: "k"}, true, false},
		"inherited":      {payload(setKey{"k", true}), setKey{"k", true}, true, false},
		"empty":          {payload(setKey{}), setKey{}, true, true},
		"of a later one": {payload(map[string]any{"key": "k", "more": 1}), setKey{Key: "k"}, true, false},
		"another form":   {payload("k"), setKey{}, true, true},
		"encrypted":      {&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted")}}, setKey{}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, ok, err := fromHeader(map[string]*commonpb.Payload{HeaderKey: test.payload})
			if set != test.set || ok != test.ok || (err != nil) != test.bad || test.bad && !errors.Is(err, guard.ErrInvalidKey) {
				t.Errorf("%+v, %t, error %v, want %+v, %t", set, ok, err, test.set, test.ok)
			}
		})
	}
}

func TestHeader_OfAKeyThatIsNoUTF8IsNoOtherKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a\xff", "\xfe", "a\xffb"} {
		payload, err := setKey{Key: key}.payload()
		if err != nil {
			t.Fatal(err)
		}
		if set, ok, err := fromHeader(map[string]*commonpb.Payload{HeaderKey: payload}); !ok || !errors.Is(err, guard.ErrInvalidKey) {
			t.Errorf("%q came as %q, error %v, want an invalid key", key, set.Key, err)
		}
	}
}
