package guard

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// keyHashBytes is long enough that two keys of one investigation do not meet,
// and short enough to read out loud.
const keyHashBytes = 8

// KeyHash names a key where the key itself must not appear: in spans, in logs
// and on an operator's screen, all of which show the same hash. It is the
// hexadecimal of the first 8 bytes of the SHA-256 over the operation and the
// name, each after its length, and is the same in every process and release.
//
// It is not a secret: who can guess a key can compute its hash.
func KeyHash(key Key) string {
	sum := keySum(key)
	return hex.EncodeToString(sum[:keyHashBytes])
}

func keySum(key Key) [sha256.Size]byte {
	buf := make([]byte, 0, 16+len(key.Operation)+len(key.Name))
	for _, part := range []string{key.Operation, key.Name} {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(part)))
		buf = append(buf, part...)
	}
	return sha256.Sum256(buf)
}

// hashed is the key under which a record is stored when keys are not to be read
// there. It begins with the hash that spans and logs show.
func (k Key) hashed() Key {
	sum := keySum(k)
	return Key{Operation: k.Operation, Name: "sha256-" + hex.EncodeToString(sum[:])}
}
