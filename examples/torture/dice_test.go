//go:build unix

package torture

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// dice are the choices of one actor of a round: each actor has its own, so that in what order
// the actors come changes nothing about them.
type dice struct {
	lease time.Duration
	mu    sync.Mutex
	rng   *rand.Rand
}

func newDice(seed, round uint64, actor string, lease time.Duration) *dice {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s", seed, round, actor))
	return &dice{lease: lease, rng: rand.New(rand.NewChaCha8(sum))}
}

// dice are always the same ones for an actor.
func (r *round) dice(actor string) *dice {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.thrown[actor]
	if !ok {
		d = newDice(r.seed, r.n, actor, r.Lease)
		r.thrown[actor] = d
	}
	return d
}

// throw is one of n, from 0 on, and a random part of so many leases.
func (d *dice) throw(n int, leases float64) (one int, part time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n), time.Duration(d.rng.Float64() * leases * float64(d.lease))
}

func (d *dice) oneOf(n int) int {
	one, _ := d.throw(n, 0)
	return one
}

func (d *dice) upTo(leases float64) time.Duration {
	_, part := d.throw(1, leases)
	return part
}

func TestDice_AreThoseOfSeedRoundAndActor(t *testing.T) {
	t.Parallel()
	throws := func(seed, round uint64, actor string) (all []time.Duration) {
		for d := newDice(seed, round, actor, time.Hour); len(all) < 10; {
			all = append(all, d.upTo(1))
		}
		return all
	}
	first := throws(1, 2, "owner 0")
	if again := throws(1, 2, "owner 0"); !slices.Equal(again, first) {
		t.Errorf("%v, then %v", first, again)
	}
	for _, other := range [][]time.Duration{throws(2, 2, "owner 0"), throws(1, 1, "owner 0"), throws(1, 2, "owner 1")} {
		if slices.Equal(other, first) {
			t.Errorf("another has the same: %v", first)
		}
	}
}
