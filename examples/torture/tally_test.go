//go:build unix

package torture

import (
	"fmt"
	"slices"

	"github.com/onceguard/onceguard/internal/realtest"
)

// tally counts what happened in all rounds.
type tally struct{ realtest.Tally }

func (y *tally) faults() uint64 { return uint64(y.Of(string(killed)) + y.Of(string(stopped))) }

func faultAt(f fate, at point) string { return fmt.Sprintf("%s at: %s", f, at) }

// missed returns the points at which no owner met a fault.
func (y *tally) missed(s setup) (missed []string) {
	for _, at := range s.points() {
		if y.Of(faultAt(killed, at))+y.Of(faultAt(stopped, at)) == 0 {
			missed = append(missed, at.String())
		}
	}
	slices.Sort(missed)
	return slices.Compact(missed)
}
