package redisx

import (
	"strings"
	"testing"

	"github.com/onceguard/onceguard/guard"
)

func TestStorageKey_IsReadable(t *testing.T) {
	for _, test := range []struct {
		operation, name, want string
	}{
		{"payment.charge", "order-4711", "onceguard:payment.charge:order-4711"},
		{"payment.charge", "a:b", "onceguard:payment.charge:a%3Ab"},
		{"payment.charge", "{user}/100%", "onceguard:payment.charge:%7Buser%7D/100%25"},
		{"e-mail", "Jürgen 💌", "onceguard:e-mail:Jürgen 💌"},
		{"", "", "onceguard::"},
		{"a\nb", "\x00\x7f", "onceguard:a%0Ab:%00%7F"},
	} {
		if got := storageKey(DefaultPrefix, guard.Key{Operation: test.operation, Name: test.name}); got != test.want {
			t.Errorf("%q %q: %q, want %q", test.operation, test.name, got, test.want)
		}
	}
}

func TestParseStorageKey_RefusesWhatStorageKeyDoesNotWrite(t *testing.T) {
	for _, s := range []string{
		"", "onceguard", "onceguard:", "onceguard:a", "other:a:b", "onceguard:a:b:c",
		"onceguard:a:{b}", "onceguard:a:%", "onceguard:a:%3", "onceguard:a:%3a", "onceguard:a:%61", "onceguard:%zz:b",
	} {
		if key, ok := parseStorageKey(DefaultPrefix, s); ok {
			t.Errorf("%q is taken for %+v", s, key)
		}
	}
}

func FuzzStorageKey_IsInjective(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("a", "%3A", "a", ":")
	f.Add("a", "%", "a", "%25")
	f.Add("a", "{b}", "{a}", "b")
	f.Add("a", "", "", "a")
	f.Add("a\x00", "b", "a", "\x00b")
	f.Add("é", "e\u0301", "e\u0301", "é")
	f.Add("\xff", "\xfe", "%FF", "%FE")
	f.Fuzz(func(t *testing.T, operation, name, otherOperation, otherName string) {
		one := guard.Key{Operation: operation, Name: name}
		two := guard.Key{Operation: otherOperation, Name: otherName}
		key := storageKey(DefaultPrefix, one)
		if same := key == storageKey(DefaultPrefix, two); same != (one == two) {
			t.Errorf("%q and %q share %q: %t", one, two, key, same)
		}
		if got, ok := parseStorageKey(DefaultPrefix, key); !ok || got != one {
			t.Errorf("%q comes back as %q, %t", one, got, ok)
		}
		if strings.ContainsAny(key, "{}\n\r\x00") {
			t.Errorf("%q picks a slot or breaks a line", key)
		}
	})
}
