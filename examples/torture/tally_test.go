//go:build unix

package torture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// tally counts what happened in all rounds.
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

func (y *tally) faults() uint64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	return uint64(y.counts[string(killed)] + y.counts[string(stopped)])
}

func faultAt(f fate, at point) string { return fmt.Sprintf("%s at: %s", f, at) }

// missed returns the points at which no owner met a fault.
func (y *tally) missed(s setup) (missed []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, at := range s.points() {
		if y.counts[faultAt(killed, at)]+y.counts[faultAt(stopped, at)] == 0 {
			missed = append(missed, at.String())
		}
	}
	slices.Sort(missed)
	return slices.Compact(missed)
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
