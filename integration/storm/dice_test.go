//go:build unix

package storm

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
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
