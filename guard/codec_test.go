package guard_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func TestBytes_ResultsAreStoredAsTheyAre(t *testing.T) {
	store := guard.NewMemoryStore()
	op, _ := newOp[[]byte](t, store, guard.WithCodec(guard.Bytes()))
	want := []byte("\x00\xff receipt")
	for range 2 {
		got, err := op.Do(t.Context(), "order-1", func(context.Context) ([]byte, error) { return want, nil })
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if rec := load(t, store, "order-1").Record; !bytes.Equal(rec.Result, want) || rec.Encoding != "bytes" {
		t.Errorf("stored %q as %q", rec.Result, rec.Encoding)
	}
}

func TestBytes_OfAnotherResultTypeIsAnErrorFromTheConstructor(t *testing.T) {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.NewOperation[string](g, "x", guard.WithCodec(guard.Bytes())); err == nil {
		t.Error("want an error")
	}
}

// rot13ish is no cipher: it shows what a cipher gets.
type rot13ish struct{ keys []guard.Key }

func (c *rot13ish) Name() string { return "rot-1" }

func (c *rot13ish) Encrypt(key guard.Key, plain []byte) ([]byte, error) {
	c.keys = append(c.keys, key)
	return rotate(plain), nil
}

func (c *rot13ish) Decrypt(key guard.Key, sealed []byte) ([]byte, error) {
	c.keys = append(c.keys, key)
	return rotate(sealed), nil
}

func rotate(in []byte) []byte {
	out := bytes.Clone(in)
	for i := range out {
		out[i] ^= 0x55
	}
	return out
}

func TestWithCipher_TheStoreSeesNoPlainText(t *testing.T) {
	store := guard.NewMemoryStore()
	cipher := &rot13ish{}
	op, _ := newOp[string](t, store, guard.WithCipher(cipher), guard.WithHashedKeys())
	for range 2 {
		got, err := op.Do(t.Context(), "order-1", func(context.Context) (string, error) { return "secret", nil })
		if got != "secret" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	hash := guard.KeyHash(guard.Key{Operation: "payment.charge", Name: "order-1"})
	found, err := store.Load(t.Context(), guard.LoadRequest{Key: guard.Key{
		Operation: "payment.charge", Name: guard.HashedName("payment.charge", "order-1"),
	}})
	if err != nil || !found.Found {
		t.Fatalf("no record under the hashed key: %v", err)
	}
	if !strings.HasPrefix(guard.HashedName("payment.charge", "order-1"), "sha256-"+hash) {
		t.Error("the stored name must begin with the hash that spans and logs show")
	}
	if bytes.Contains(found.Record.Result, []byte("secret")) || found.Record.Encoding != "json+rot-1" {
		t.Errorf("stored %q as %q", found.Record.Result, found.Record.Encoding)
	}
	for _, key := range cipher.keys {
		if key != (guard.Key{Operation: "payment.charge", Name: "order-1"}) {
			t.Errorf("the cipher got the key %+v, want the caller's own", key)
		}
	}
	if load(t, store, "order-1").Found {
		t.Error("the key was stored in clear")
	}
}

func TestWithCipher_NilIsAnErrorFromTheConstructor(t *testing.T) {
	if _, err := guard.New(guard.NewMemoryStore(), guard.WithCipher(nil)); err == nil {
		t.Error("want an error")
	}
}

func TestWithFingerprint_ComparesWithinAnAlgorithmOnly(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore())
	var c counter
	do := func(algorithm, digest string) error {
		_, err := op.Do(t.Context(), "k", c.act, guard.WithFingerprint(guard.Fingerprint{Algorithm: algorithm, Digest: digest}))
		return err
	}
	if err := do("crc32", "1"); err != nil {
		t.Error(err)
	}
	if err := do("crc32", "2"); !errors.Is(err, guard.ErrMismatch) {
		t.Errorf("got %v, want ErrMismatch", err)
	}
	if err := do("md5", "2"); err != nil {
		t.Errorf("other algorithms are not compared: %v", err)
	}
	for _, half := range [][2]string{{"crc32", ""}, {"", "1"}} {
		if err := do(half[0], half[1]); !errors.Is(err, guard.ErrInvalidInput) {
			t.Errorf("%q: got %v, want ErrInvalidInput", half, err)
		}
	}
}

func TestErase_ForgetsAResultAndNeverALiveOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, _ := newOp[int](t, guard.NewMemoryStore(), guard.OnInFlight(guard.Refuse))
		c := slow(time.Second)
		running := start(t.Context(), op, "order-1", c.act)
		time.Sleep(time.Millisecond)
		if err := op.Erase(t.Context(), "order-1"); !errors.Is(err, guard.ErrInProgress) {
			t.Errorf("got %v, want ErrInProgress", err)
		}
		<-running
		for range 2 {
			if err := op.Erase(t.Context(), "order-1"); err != nil {
				t.Error(err)
			}
		}
		if got, err := op.Do(t.Context(), "order-1", c.act); got != 2 || err != nil {
			t.Errorf("got %d, %v; want a new run", got, err)
		}
	})
}

func TestErase_Errors(t *testing.T) {
	op, _ := newOp[int](t, guard.NewMemoryStore())
	if err := op.Erase(t.Context(), ""); !errors.Is(err, guard.ErrInvalidKey) {
		t.Errorf("got %v, want ErrInvalidKey", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := op.Erase(ctx, "k"); !errors.Is(err, context.Canceled) || errors.Is(err, guard.ErrStorage) {
		t.Errorf("got %v, want the context's error", err)
	}
	unable, _ := newOp[int](t, newFaultyStore())
	if err := unable.Erase(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "cannot erase") {
		t.Errorf("got %v, want word that the store cannot", err)
	}
	var none *guard.Operation[int]
	if err := none.Erase(t.Context(), "k"); err == nil {
		t.Error("a nil operation must be an error")
	}
}
