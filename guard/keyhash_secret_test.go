package guard_test

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/guard"
)

var order = guard.Key{Operation: "payment.charge", Name: "order-1"}

func secretly(t *testing.T, store guard.Store, secret string, opts ...guard.OperationOption) (*guard.Guard, *guard.Operation[int]) {
	t.Helper()
	g, err := guard.New(store, guard.WithKeyHashSecret([]byte(secret)))
	if err != nil {
		t.Fatal(err)
	}
	op, err := guard.NewOperation[int](g, order.Operation, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return g, op
}

func TestWithKeyHashSecret_HashesDependOnIt(t *testing.T) {
	t.Parallel()
	g, _ := secretly(t, guard.NewMemoryStore(), "0123456789abcdef")
	other, _ := secretly(t, guard.NewMemoryStore(), "0123456789abcdeF")
	hash := g.KeyHash(order)
	if raw, err := hex.DecodeString(hash); err != nil || len(raw) != 8 {
		t.Errorf("the hash is %q, want 16 hexadecimal digits", hash)
	}
	if hash == guard.KeyHash(order) || hash == other.KeyHash(order) {
		t.Errorf("the hash %s does not depend on the secret", hash)
	}
	// Pinned: what is stored under it must be found after an upgrade.
	if want := "4b3af386b308ef4a"; hash != want {
		t.Errorf("the hash is %s, want %s", hash, want)
	}
}

func TestWithKeyHashSecret_IsChecked(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", "0123456789abcde"} {
		_, err := guard.New(guard.NewMemoryStore(), guard.WithKeyHashSecret([]byte(secret)))
		if err == nil || !strings.Contains(err.Error(), "at least 16") {
			t.Errorf("a secret of %d bytes: %v", len(secret), err)
		}
	}
}

func TestWithKeyHashSecret_IsCopied(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	g, err := guard.New(guard.NewMemoryStore(), guard.WithKeyHashSecret(secret))
	if err != nil {
		t.Fatal(err)
	}
	before := g.KeyHash(order)
	clear(secret)
	if g.KeyHash(order) != before {
		t.Error("the caller's slice was kept")
	}
}

// hashes is an observer that keeps the hashes of calls.
type hashes struct {
	recorder
	got []string
}

func (h *hashes) Operation(guard.OperationInfo) guard.OperationObserver { return h }

func (h *hashes) Call(ctx context.Context, info guard.CallInfo) (context.Context, guard.CallObserver) {
	h.got = append(h.got, info.KeyHash())
	return ctx, h
}

// From a hash that an observer sees lead ways to the lease, the open key and the record, with keys
// that are stored in clear or hashed, with a secret or without.
func TestKeyHash_IsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	secret := guard.WithKeyHashSecret([]byte("0123456789abcdef"))
	for name, at := range map[string]struct {
		guard  []guard.GuardOption
		opts   []guard.OperationOption
		stored string // what the name in the store begins with
	}{
		"plain":              {},
		"secret":             {guard: []guard.GuardOption{secret}},
		"hashed":             {opts: []guard.OperationOption{guard.WithHashedKeys()}, stored: "sha256-"},
		"hashed with secret": {[]guard.GuardOption{secret}, []guard.OperationOption{guard.WithHashedKeys()}, "hmac-sha256-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &hashes{}
			g, err := guard.New(guard.NewMemoryStore(), append(at.guard, guard.WithObserver(seen))...)
			if err != nil {
				t.Fatal(err)
			}
			op, err := guard.NewOperation[int](g, order.Operation, at.opts...)
			if err != nil {
				t.Fatal(err)
			}
			hash := g.KeyHash(order)
			_, err = op.Do(t.Context(), order.Name, func(ctx context.Context) (int, error) {
				if leases := g.Leases(); len(leases) != 1 || leases[0].KeyHash != hash {
					t.Errorf("leases %+v, want the hash %s", leases, hash)
				}
				for open, err := range g.List(ctx, guard.ListQuery{}) {
					want := order.Name
					if at.stored != "" {
						want = at.stored + hash
					}
					if err != nil || open.KeyHash != hash || !strings.HasPrefix(open.Key.Name, want) {
						t.Errorf("open key %+v, %v, want %s… with the hash %s", open, err, want, hash)
					}
					if g.KeyHash(open.Key) != hash || guard.KeyHash(open.Key) != hash && at.stored != "" {
						t.Errorf("the stored name %s does not lead to the hash %s", open.Key.Name, hash)
					}
				}
				return 1, nil
			})
			if err != nil || len(seen.got) != 1 || seen.got[0] != hash {
				t.Errorf("the observer saw %q, want %s: %v", seen.got, hash, err)
			}
		})
	}
}

func TestWithKeyHashSecret_AnotherSecretFindsNoHashedKeys(t *testing.T) {
	t.Parallel()
	store := guard.NewMemoryStore()
	runs := 0
	act := func(context.Context) (int, error) { runs++; return runs, nil }
	for i, want := range []int{1, 1, 2} {
		secret := []string{"0123456789abcdef", "0123456789abcdef", "another secret of 16 bytes"}[i]
		_, op := secretly(t, store, secret, guard.WithHashedKeys())
		if got, err := op.Do(t.Context(), order.Name, act); got != want || err != nil {
			t.Errorf("call %d: got %d, %v, want %d", i, got, err, want)
		}
	}
}

// Names that only look like hashed ones are hashed as any other.
func TestKeyHash_OfANameThatOnlyLooksHashed(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("0123456789abcdef", 4)
	for name, isHash := range map[string]bool{
		"sha256-" + digits:                  true,
		"hmac-sha256-" + digits:             true,
		"sha256-" + strings.ToUpper(digits): false,
		"sha256-" + digits[1:]:              false,
		"sha256-" + digits + "0":            false,
		"sha256-" + digits[1:] + "\n":       false,
		"sha512-" + digits:                  false,
		digits:                              false,
	} {
		hash := guard.KeyHash(guard.Key{Operation: order.Operation, Name: name})
		if got := hash == digits[:16]; got != isHash {
			t.Errorf("KeyHash of %q is %s", name, hash)
		}
	}
}
