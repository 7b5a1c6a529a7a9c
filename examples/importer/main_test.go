package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/examples/internal/setup"
	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) { realtest.Main(m) }

func play(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	args := append([]string{"-temporal", realtest.SharedTemporal(t).Addr()}, flags...)
	err := setup.Run(t.Context(), "importer", args, &out, run)
	t.Log(out.String())
	return out.String(), err
}

// stores are the flags that choose where the guard has its records.
func stores(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{"in memory": nil, "on Redis": {"-redis", realtest.SharedRedis(t).Addr()}}
}

func TestImporter_WritesEachBatchOnceThoughAnAttemptHangs(t *testing.T) {
	t.Parallel()
	for name, flags := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := play(t, flags...)
			if err != nil {
				t.Error(err)
			}
			for text, want := range map[string]int{
				"attempt 1 begins after batch 0":                               1,
				"attempt 2 begins after batch ":                                1,
				"attempt 2 begins after batch 0":                               0, // it has the heartbeat's details
				fmt.Sprintf("attempt 2: batch %d: %s", hangsAfter, "replayed"): 1,
				": executed": batches,
			} {
				if got := strings.Count(out, text); got != want {
					t.Errorf("%q is printed %d times, want %d", text, got, want)
				}
			}
		})
	}
}

func TestImporter_WithoutTheGuardFails(t *testing.T) {
	t.Parallel()
	out, err := play(t, "-guard=off")
	if !errors.Is(err, setup.ErrInvariant) {
		t.Errorf("error %v, want ErrInvariant", err)
	}
	if !strings.Contains(out, fmt.Sprintf("attempt 2: batch %d", hangsAfter)) {
		t.Error("no second attempt came to the batch after which the first one hangs")
	}
}
