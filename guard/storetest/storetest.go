// Package storetest is the conformance suite for implementations of
// [guard.Store]: every clause of the contract is a subtest whose name is a
// sentence.
//
//	func TestStore_KeepsTheContract(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			New: func(t *testing.T) guard.Store { return newMyStore(t) },
//		})
//	}
//
// The suite never looks at a clock to decide what a store should say: it waits
// until the store itself says that a lease has run out, and uses long leases
// where a lease must not run out. It takes a few seconds.
//
// A store may have abilities beside the protocol, such as [guard.Holder]. The clauses
// of those that it lacks are skipped.
package storetest

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// Harness is what the suite needs to test a store.
type Harness struct {
	// New returns a store to test. It is called once per clause, for many clauses
	// at once; they may share one database, since each clause has keys of its own.
	New func(t *testing.T) guard.Store

	// Lose makes the store lose the record of the key, as an eviction, a flush or a
	// failover would. Without it the suite shows the store an owner of a record
	// that it never had, which comes to the same for most stores.
	Lose func(t *testing.T, store guard.Store, key guard.Key)

	// Spoil puts something under the key that the store cannot read, such as the
	// record of a newer version. Without it the clauses about such records are
	// skipped.
	Spoil func(t *testing.T, store guard.Store, key guard.Key)

	// ShortLease is the lease of owners that are to be dead soon, 100 ms by
	// default. Make it longer for a store whose clock is coarse.
	ShortLease time.Duration
}

const (
	defaultShortLease = 100 * time.Millisecond
	longLease         = time.Minute // never runs out during a test
	retention         = time.Hour
	patience          = 20 * time.Second // bounds a wait that should be far shorter
)

// clause is one sentence of the contract.
type clause struct {
	sentence string
	holds    func(e *env)
}

// Run tests that a store keeps the contract.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.ShortLease == 0 {
		h.ShortLease = defaultShortLease
	}
	for _, group := range []struct {
		name    string
		clauses []clause
	}{
		{"Reserve", reserveClauses()},
		{"Reserve again", repeatClauses()},
		{"Reserve what cannot be decoded", healClauses()},
		{"Fence", fenceClauses()},
		{"Renew", renewClauses()},
		{"Replace", replaceClauses()},
		{"Replace without a reservation", orphanClauses()},
		{"Release", releaseClauses()},
		{"Kept", keptClauses()},
		{"Dispatch", dispatchClauses()},
		{"Mark", markClauses()},
		{"Takeover of what was dispatched", takeoverClauses()},
		{"Input of what was dispatched", inputClauses()},
		{"Held", heldClauses()},
		{"Nothing found", nothingFoundClauses()},
		{"Release what another dispatched", giveBackClauses()},
		{"Hold", holdClauses()},
		{"Hold without a reservation", putInPlaceClauses()},
		{"Failed", failedClauses()},
		{"Replace what was dispatched", lateClauses()},
		{"Resolve", resolveClauses()},
		{"Resolved", resolvedClauses()},
		{"List", listClauses()},
		{"Load", loadClauses()},
		{"Erase", eraseClauses()},
		{"Watch", watchClauses()},
		{"Keys", keyClauses()},
		{"Records", recordClauses()},
		{"Unreadable", unreadableClauses()},
		{"Context", contextClauses()},
		{"Races", raceClauses()},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.clauses {
				t.Run(c.sentence, func(t *testing.T) {
					t.Parallel()
					c.holds(newEnv(t, h))
				})
			}
		})
	}
}

// newOwner is an owner that no store has seen.
func newOwner() guard.Owner {
	return guard.Owner{
		Token:       rand.Text(),
		Label:       "host-1/4711 worker@host-1",
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

func newKey() guard.Key {
	return guard.Key{Operation: "storetest.charge", Name: "order-" + rand.Text()}
}

// input is the fingerprint of the owners' reservations.
func input() guard.Fingerprint {
	return guard.Fingerprint{Algorithm: "sha256-json", Digest: "9f86d081884c7d659a2feaa0c55ad015"}
}
