package guard_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
)

type uuid [16]byte

func (u uuid) MarshalText() ([]byte, error) {
	return []byte(hex.EncodeToString(u[:])), nil
}

func TestCase_R3_FingerprintsAreStableOrAnErrorBeforeTheAction(t *testing.T) {
	moment := time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)
	monotonic := time.Now()
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	same := map[string][2]any{
		"time with and without the monotonic clock": {monotonic, monotonic.Round(0)},
		"UUID":         {uuid{1}, uuid{1}},
		"big integer":  {huge, json.RawMessage("123456789012345678901234567890")},
		"raw JSON":     {json.RawMessage(`{"b": 1, "a": [1, 2]}`), json.RawMessage(`{"a":[1,2],"b":1}`)},
		"map order":    {map[string]int{"a": 1, "b": 2, "c": 3}, map[string]int{"c": 3, "b": 2, "a": 1}},
		"nested":       {map[string]any{"x": map[string]any{"b": 1, "a": 2}}, json.RawMessage(`{"x":{"a":2,"b":1}}`)},
		"time":         {moment, json.RawMessage(`"2026-11-30T12:00:00.123456789Z"`)},
		"pointer":      {&moment, moment},
		"int64 > 2^53": {int64(9007199254740993), json.RawMessage("9007199254740993")},
	}
	for name, pair := range same {
		if err := compare(t, pair[0], pair[1]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	different := map[string][2]any{
		"neighbours above 2^53": {int64(9007199254740993), int64(9007199254740992)},
		"big neighbours":        {huge, new(big.Int).Add(huge, big.NewInt(1))},
		"order of a list":       {[]int{1, 2}, []int{2, 1}},
		"UUIDs":                 {uuid{1}, uuid{2}},
		"nil and empty":         {[]int(nil), []int{}},
		"a nanosecond":          {moment, moment.Add(1)},
	}
	for name, pair := range different {
		if err := compare(t, pair[0], pair[1]); !errors.Is(err, guard.ErrMismatch) {
			t.Errorf("%s: got %v, want ErrMismatch", name, err)
		}
	}
	for _, input := range []any{make(chan int), func() {}, nan(), json.RawMessage(`{"a":`), panicker{}, struct{ hidden string }{"a"}} {
		if err := compare(t, input, input); !errors.Is(err, guard.ErrInvalidInput) {
			t.Errorf("%T: got %v, want ErrInvalidInput", input, err)
		}
	}
}

// compare calls with one input and then another, and returns the first error.
func compare(t *testing.T, first, second any) error {
	t.Helper()
	op, _ := newOp[int](t, guard.NewMemoryStore())
	var c counter
	for _, input := range []any{first, second} {
		if _, err := op.Do(t.Context(), "k", c.act, guard.WithInput(input)); err != nil {
			return err
		}
	}
	return nil
}

func FuzzWithInput_CanonicalJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":1,"a":[1,2,{"d":null,"c":1e400}]}`, `9007199254740993`, `"\u00e9\ud800"`, `[]`, ` { "x" : -0.0 } `, `{"a":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			t.Skip()
		}
		once, err := guard.Canonical(json.RawMessage(raw))
		if err != nil {
			t.Fatalf("valid JSON has no canonical form: %v", err)
		}
		twice, err := guard.Canonical(json.RawMessage(once))
		if err != nil || string(once) != string(twice) {
			t.Fatalf("not a fixed point: %q, then %q, %v", once, twice, err)
		}
		var compact any
		if err := guard.JSON().Unmarshal(raw, &compact); err != nil {
			t.Fatal(err)
		}
		again, err := guard.Canonical(compact)
		if err != nil || string(again) != string(once) {
			t.Fatalf("the same value in other white space: %q, then %q, %v", once, again, err)
		}
	})
}
