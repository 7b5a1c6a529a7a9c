package guard_test

import (
	"fmt"
	"testing"

	"github.com/onceguard/onceguard/guard"
)

func ExampleKeyHash() {
	fmt.Println(guard.KeyHash(guard.Key{Operation: "payment.charge", Name: "order-4711"}))
	// Output: 5a9e79d16c84b1aa
}

func TestKeyHash_TellsApartKeysWhoseTextsJoinToTheSame(t *testing.T) {
	t.Parallel()
	seen := map[string]guard.Key{}
	for _, key := range []guard.Key{
		{Operation: "ab", Name: "c"},
		{Operation: "a", Name: "bc"},
		{Operation: "", Name: "abc"},
		{Operation: "abc", Name: ""},
	} {
		hash := guard.KeyHash(key)
		if other, ok := seen[hash]; ok {
			t.Errorf("%+v and %+v have the same hash %s", key, other, hash)
		}
		if len(hash) != 16 {
			t.Errorf("KeyHash(%+v) = %q, want 16 hexadecimal digits", key, hash)
		}
		seen[hash] = key
	}
}
