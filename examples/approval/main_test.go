package main

import (
	"strings"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) { realtest.ProgramMain(m, main) }

func wantLines(t *testing.T, out string, lines map[string]int) {
	t.Helper()
	for text, want := range lines {
		if got := strings.Count(out, text); got != want {
			t.Errorf("%q is printed %d times, want %d", text, got, want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

func TestApproval_OneRequestAndItsDecisionForAll(t *testing.T) {
	t.Parallel()
	temporal, redis := realtest.SharedTemporal(t).Addr(), realtest.SharedRedis(t).Addr()
	for name, args := range map[string][]string{
		"in memory": {"-temporal", temporal},
		"on Redis":  {"-temporal", temporal, "-redis", redis},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := realtest.RunProgram(t, 0, args...)
			wantLines(t, out, map[string]int{
				// Of two that ask at once one waits, until a yes and until a no.
				"2 activities have begun, of which 1 have sent a request": 2,
				": 1 requests were sent":                                  2,
				// One more asks when they have it.
				"has the decision on request 1: approved true":  workflows + 1,
				"has the decision on request 1: approved false": workflows + 1,
				"each order was decided once":                   1,
			})
			realtest.MustMatch(t, out,
				`late-\S+: the answer to request 1 comes too late: .*stale`,
				`late-\S+: request 2 is answered by the activity's id`,
				`late-\S+ has the decision on request 2: approved true`,
			)
		})
	}
}

func TestApproval_FailsWithTheGuardSwitchedOff(t *testing.T) {
	t.Parallel()
	out := realtest.RunProgram(t, 1, "-guard=off", "-temporal", realtest.SharedTemporal(t).Addr())
	wantLines(t, out, map[string]int{": 3 requests were sent": 2, "each order was decided once": 0})
	realtest.MustMatch(t, out, `FAILED: approved-\S+: 3 requests`)
}
