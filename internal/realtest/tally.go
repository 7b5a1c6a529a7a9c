package realtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Tally counts what happens in a test that goes by chance. The zero value is ready, and it is
// safe for use by many goroutines.
type Tally struct {
	mu     sync.Mutex
	counts map[string]int
}

// Add counts n of a thing.
func (y *Tally) Add(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	y.counts[what] += n
}

// Of is how many there were.
func (y *Tally) Of(what string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[what]
}

// String has a line for each thing, in the order of their names.
func (y *Tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var lines []string
	for what, n := range y.counts {
		lines = append(lines, fmt.Sprintf("%6d %s", n, what))
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[6:], b[6:]) })
	return "\n" + strings.Join(lines, "\n")
}
