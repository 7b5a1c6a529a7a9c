package storetest

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/onceguard/onceguard/guard"
)

func keyClauses() []clause {
	return []clause{
		{"two keys never share a record", keysNeverShare},
		{"every key is found again", func(e *env) {
			for _, key := range trickyKeys(rand.Text()) {
				at := e.at(key)
				at.same(at.acquire(newOwner()), at.stored())
			}
		}},
	}
}

// keysNeverShare acquires every key once. A store that mixes two of them up
// refuses the second, or has another owner's record in the end.
func keysNeverShare(e *env) {
	keys := trickyKeys(rand.Text())
	owners := make([]guard.Owner, len(keys))
	for i, key := range keys {
		owners[i] = newOwner()
		if reply := e.at(key).reserve(owners[i]); !reply.Acquired {
			e.Errorf("%q shares a record with another key", key)
		}
	}
	for i, key := range keys {
		if rec := e.at(key).stored(); rec.Owner.Token != owners[i].Token {
			e.Errorf("%q has the record of another key", key)
		}
	}
}

// trickyKeys are pairwise different keys that a careless encoding mixes up. The
// text keeps them apart from those of other tests.
func trickyKeys(text string) []guard.Key {
	long := strings.Repeat("x", 254)
	pairs := [][2]string{
		{"a", "b:c"},
		{"a:b", "c"},
		{"a:", "b:c"},
		{"a", ":b:c"},
		{"a::b", "c"},
		{"a", "b"},
		{"ab", ""},
		{"", "ab"},
		{"a", ""},
		{"", "a"},
		{"A", "b"},
		{"a", "B"},
		{"a", "b%3Ac"},
		{"a%3Ab", "c"},
		{"a", "b%3ac"},
		{"a", "b%253Ac"},
		{"a", "%"},
		{"a", "%%"},
		{"a", "%25"},
		{"a", "{b}"},
		{"{a}", "b"},
		{"a", "{}"},
		{"a", "{"},
		{"a", "}"},
		{"{", "}"},
		{"a", "%7Bb%7D"},
		{"a/b", "c"},
		{"a", "b/c"},
		{"a", "b/../c"},
		{"a", "b|c"},
		{"a|b", "c"},
		{"a", "b\\c"},
		{"a", " b"},
		{"a", "b "},
		{"a", "b c"},
		{"a ", "b"},
		{"a", "b+c"},
		{"a", "b%20c"},
		{"a", "b_c"},
		{"a", "é"},
		{"a", "e\u0301"},
		{"a", "e"},
		{"a", "💳"},
		{"a", "ß"},
		{"a", "ss"},
		{"a", "\u200b"},
		{"a", "*"},
		{"a", "?"},
		{"a", "[b]"},
		{"a", "'"},
		{"a", `"`},
		{"a", "0"},
		{"a", "00"},
		{"a", long + "y"},
		{"a", long + "z"},
		{"a", long},
		{"a", strings.Repeat(":", 255)},
		{"a", strings.Repeat("é", 127)},
	}
	keys := make([]guard.Key, 0, 2*len(pairs))
	for _, pair := range pairs {
		keys = append(keys,
			guard.Key{Operation: fmt.Sprintf("%s.%s", text, pair[0]), Name: pair[1]},
			guard.Key{Operation: pair[0], Name: fmt.Sprintf("%s.%s", text, pair[1])})
	}
	return keys
}
