package redisx

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onceguard/onceguard/guard"
)

const (
	separator  = ":"
	keySpecial = ":{}"
	maxPrefix  = 128 // bytes
)

// storageKey is the Redis key of a record: prefix:operation:name. The last two
// colons separate, since the operation and the name have none left.
func storageKey(prefix string, key guard.Key) string {
	return prefix + separator + escape(key.Operation, keySpecial) + separator + escape(key.Name, keySpecial)
}

// parseStorageKey undoes storageKey. It says false for a key that storageKey
// does not write.
func parseStorageKey(prefix, s string) (guard.Key, bool) {
	rest, ok := strings.CutPrefix(s, prefix+separator)
	if !ok {
		return guard.Key{}, false
	}
	operation, name, ok := strings.Cut(rest, separator)
	if !ok {
		return guard.Key{}, false
	}
	plainOperation, ok := unescape(operation, keySpecial)
	if !ok {
		return guard.Key{}, false
	}
	plainName, ok := unescape(name, keySpecial)
	return guard.Key{Operation: plainOperation, Name: plainName}, ok
}

func validatePrefix(prefix string) error {
	var faults []error
	if n := len(prefix); n > maxPrefix {
		faults = append(faults, fmt.Errorf("prefix of %d bytes: longer than %d", n, maxPrefix))
	}
	if !utf8.ValidString(prefix) {
		faults = append(faults, fmt.Errorf("prefix %q: not UTF-8", prefix))
	}
	if strings.ContainsFunc(prefix, unicode.IsControl) {
		faults = append(faults, fmt.Errorf("prefix %q: has control characters", prefix))
	}
	return errors.Join(faults...)
}
