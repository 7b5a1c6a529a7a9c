//go:build unix

package storm

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// dice are the choices of one actor, the same ones for a seed in whatever order the actors come.
type dice struct{ *rand.Rand }

func newDice(seed uint64, actor string) dice {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, actor))
	return dice{rand.New(rand.NewChaCha8(sum))}
}

func (d dice) upTo(most time.Duration) time.Duration {
	return time.Duration(d.Float64() * float64(most))
}

// tally counts what happened in a storm.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (y *tally) add(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	y.counts[what] += n
}

func (y *tally) of(what string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[what]
}

func (y *tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var lines []string
	for what, n := range y.counts {
		lines = append(lines, fmt.Sprintf("%6d %s", n, what))
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[6:], b[6:]) })
	return "\n" + strings.Join(lines, "\n")
}
