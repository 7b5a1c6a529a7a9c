package guard_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/onceguard/onceguard/guard"
)

// aesGCM encrypts results with AES-GCM. The key of the record is authenticated
// with the result: a record that is copied under another key does not decrypt. The
// first byte of a result names its secret, so that the secret can be changed while
// results of the old one are kept.
type aesGCM struct {
	current byte
	secrets map[byte]cipher.AEAD
}

func newAESGCM(current byte, secrets map[byte][]byte) (*aesGCM, error) {
	c := &aesGCM{current: current, secrets: map[byte]cipher.AEAD{}}
	for id, secret := range secrets {
		block, err := aes.NewCipher(secret)
		if err != nil {
			return nil, err
		}
		if c.secrets[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
	}
	if c.secrets[current] == nil {
		return nil, errors.New("the current secret is not among the secrets")
	}
	return c, nil
}

func (c *aesGCM) Name() string { return "aes-gcm" }

func (c *aesGCM) Encrypt(key guard.Key, plaintext []byte) ([]byte, error) {
	return c.secrets[c.current].Seal([]byte{c.current}, nil, plaintext, boundTo(key)), nil
}

func (c *aesGCM) Decrypt(key guard.Key, ciphertext []byte) ([]byte, error) {
	if len(ciphertext) == 0 || c.secrets[ciphertext[0]] == nil {
		return nil, errors.New("the result was encrypted with a secret that is not here")
	}
	return c.secrets[ciphertext[0]].Open(nil, nil, ciphertext[1:], boundTo(key))
}

// boundTo joins operation and name by a byte that neither can have.
func boundTo(key guard.Key) []byte { return []byte(key.Operation + "\x00" + key.Name) }

func ExampleWithCipher() {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // from your secret store, the same in every process
	encryption, err := newAESGCM(1, map[byte][]byte{1: secret})
	if err != nil {
		panic(err)
	}
	store := guard.NewMemoryStore()
	g, err := guard.New(store, guard.WithCipher(encryption), guard.OnUnreadable(guard.Refuse))
	if err != nil {
		panic(err)
	}
	charge, err := guard.NewOperation[string](g, "payment.charge")
	if err != nil {
		panic(err)
	}
	for range 2 {
		receipt, err := charge.Do(context.Background(), "order-4711", func(context.Context) (string, error) {
			return "card ending 4242", nil
		})
		fmt.Println(receipt, err)
	}
	stored, err := store.Load(context.Background(), guard.LoadRequest{
		Key: guard.Key{Operation: "payment.charge", Name: "order-4711"},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(stored.Record.Encoding, "holds the card:", bytes.Contains(stored.Record.Result, []byte("4242")))
	// Output:
	// card ending 4242 <nil>
	// card ending 4242 <nil>
	// json+aes-gcm holds the card: false
}

func ExampleOperation_Erase() {
	charge := exampleOperation()
	runs := 0
	act := func(context.Context) (int, error) { runs++; return runs, nil }
	_, _ = charge.Do(context.Background(), "order-4711", act)
	fmt.Println(charge.Erase(context.Background(), "order-4711"))
	value, _ := charge.Do(context.Background(), "order-4711", act)
	fmt.Println("run", value)
	// Output:
	// <nil>
	// run 2
}

func ExampleLeaseFromContext() {
	charge := exampleOperation()
	_, err := charge.Do(context.Background(), "order-4711", func(ctx context.Context) (int, error) {
		lease, ok := guard.LeaseFromContext(ctx)
		fmt.Println("under a lease:", ok, "with a fence for the ledger:", lease.Fence() > 0)
		return 1, nil
	})
	fmt.Println(err)
	// Output:
	// under a lease: true with a fence for the ledger: true
	// <nil>
}
