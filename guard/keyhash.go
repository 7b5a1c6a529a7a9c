package guard

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// keyHashBytes is long enough that two keys of one investigation do not meet,
	// and short enough to read out loud.
	keyHashBytes = 8

	minKeyHashSecret = 16

	// What the names of hashed keys begin with in the store.
	hashedPrefix = "sha256-"
	keyedPrefix  = "hmac-sha256-"
)

// KeyHash names a key where the key itself must not appear: in spans, in logs and on an operator's
// screen, all of which show the same hash. It is the hexadecimal of the first 8 bytes of the
// SHA-256 over the operation and the name, each after its length, and is the same in every process
// and release. A name that is a hash already, as [WithHashedKeys] stores it, has the hash of its
// key: its first 16 digits.
//
// It is not a secret: who can guess a key can compute its hash. Against that there is
// [WithKeyHashSecret]; the hashes of such a guard are those of [Guard.KeyHash].
func KeyHash(key Key) string { return (*keyHasher)(nil).hash(key) }

// KeyHash names a key as this guard does in spans, in logs and in [Guard.Leases]: it is
// [KeyHash], unless the guard has [WithKeyHashSecret].
func (g *Guard) KeyHash(key Key) string {
	if g == nil {
		return KeyHash(key)
	}
	if made, ok := g.claims.Load(key.Operation); ok && !made.(claim).hashed {
		return g.defaults.keyHash.shown(key) // a name in clear may look like a hash
	}
	return g.defaults.keyHash.hash(key)
}

// KeyHash names the key of the call, see [Guard.KeyHash]. It is computed when it is asked
// for.
func (i CallInfo) KeyHash() string { return i.keyHash.shown(i.Key) }

// WithKeyHashSecret makes key hashes of a secret, so that who does not know it cannot tell from a hash
// whether a guessed key is meant. A hash is then the first 8 bytes of the HMAC-SHA-256
// of what [KeyHash] digests, everywhere: in spans, in logs, in [Guard.Leases], in
// [Guard.List], and in the names under which [WithHashedKeys] stores keys, which begin with
// "hmac-sha256-" then. Who has the secret and a key gets its hash from [Guard.KeyHash].
//
// The secret has at least 16 bytes, best random ones; it is copied. All processes that share
// records or logs need the same one. With WithHashedKeys it cannot be changed as long as records
// matter: under another secret they are not found, so that their actions run again. Default: no
// secret.
func WithKeyHashSecret(secret []byte) GuardOption {
	hasher := &keyHasher{secret: bytes.Clone(secret)}
	return guardOption(func(c *guardConfig) { c.defaults.keyHash = hasher })
}

// keyHasher makes key hashes. A nil one has no secret.
type keyHasher struct{ secret []byte }

func (h *keyHasher) check() error {
	if h != nil && len(h.secret) < minKeyHashSecret {
		return fmt.Errorf("key hash secret of %d bytes: at least %d; leave WithKeyHashSecret out for plain hashes",
			len(h.secret), minKeyHashSecret)
	}
	return nil
}

func (h *keyHasher) hash(key Key) string {
	if digits, ok := hashDigits(key.Name); ok {
		return digits[:2*keyHashBytes]
	}
	return h.shown(key)
}

// shown is the hash of a key in clear, whatever it looks like.
func (h *keyHasher) shown(key Key) string {
	sum := h.sum(key)
	return hex.EncodeToString(sum[:keyHashBytes])
}

func (h *keyHasher) sum(key Key) [sha256.Size]byte {
	buf := make([]byte, 0, 16+len(key.Operation)+len(key.Name))
	for _, part := range []string{key.Operation, key.Name} {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(part)))
		buf = append(buf, part...)
	}
	if h == nil {
		return sha256.Sum256(buf)
	}
	mac := hmac.New(sha256.New, h.secret)
	mac.Write(buf)
	return [sha256.Size]byte(mac.Sum(nil))
}

// hashed is the key under which a record is stored when keys are not to be read
// there. It begins with the hash that spans and logs show.
func (h *keyHasher) hashed(key Key) Key {
	sum, prefix := h.sum(key), hashedPrefix
	if h != nil {
		prefix = keyedPrefix
	}
	return Key{Operation: key.Operation, Name: prefix + hex.EncodeToString(sum[:])}
}

// hashDigits are the digits of a name that is hashed.
func hashDigits(name string) (digits string, ok bool) {
	digits, ok = strings.CutPrefix(name, keyedPrefix)
	if !ok {
		digits, ok = strings.CutPrefix(name, hashedPrefix)
	}
	return digits, ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}
