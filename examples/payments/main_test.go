package main

import (
	"os"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

// asProgram makes the test binary be the program. So the demo that is tested
// has the race detector when the tests have it, and its children too.
const asProgram = "ONCEGUARD_PAYMENTS"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:]))
	}
	realtest.Main(m)
}

func TestRun_RefusesARoleThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	if code := run([]string{"accountant"}); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}
