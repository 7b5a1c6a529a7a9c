//go:build !race

package guard_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/onceguard/onceguard/guard"
)

// TestAlloc_WhatNobodyUsesCostsNothing pins the allocations of a call on the in-memory
// store. The race detector allocates, so it runs without.
func TestAlloc_WhatNobodyUsesCostsNothing(t *testing.T) {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	op, err := guard.NewOperation[int](g, "payment.charge")
	if err != nil {
		t.Fatal(err)
	}
	act := func(context.Context) (int, error) { return 1, nil }
	n := 0
	do := func(key string) {
		if _, err := op.Do(t.Context(), key, act); err != nil {
			t.Error(err)
		}
	}
	do("hit")
	if got := testing.AllocsPerRun(100, func() { do("hit") }); got > 20 {
		t.Errorf("a hit allocates %v times, at most 20 are allowed", got)
	}
	if got := testing.AllocsPerRun(100, func() { n++; do(strconv.Itoa(n)) }); got > 38 {
		t.Errorf("a miss allocates %v times, at most 38 are allowed", got)
	}
}
