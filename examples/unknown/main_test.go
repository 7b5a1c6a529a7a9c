package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) { realtest.ProgramMain(m, main) }

func TestUnknown_IsReconciledAndChargedOnce(t *testing.T) {
	t.Parallel()
	temporal, redis := realtest.SharedTemporal(t).Addr(), realtest.SharedRedis(t).Addr()
	out := realtest.RunProgram(t, 0, "-temporal", temporal, "-redis", redis)
	realtest.MustMatch(t, out,
		`dies: the bank has charged`,
		`after-\S+: the bank has 1 charges, the key is completed`,
		`dies: the bank is not asked yet`,
		`before-\S+: the bank has 0 charges, the key is released`,
		`each order was charged once`,
	)
	for order, want := range map[string]int{"after": 1, "before": 2} { // the second call replays, or charges
		runs := regexp.MustCompile(order+`-\S+: ChargeCard, attempt \d+, runs`).FindAllString(out, -1)
		if len(runs) != want {
			t.Errorf("%s: ChargeCard ran %d times, want %d, in:\n%s", order, len(runs), want, out)
		}
	}
}

func TestUnknown_FailsWithTheGuardSwitchedOff(t *testing.T) {
	t.Parallel()
	out := realtest.RunProgram(t, 1, "-guard=off", "-temporal", realtest.SharedTemporal(t).Addr())
	realtest.MustMatch(t, out, `FAILED: after-\S+: the bank has booked`)
	if strings.Contains(out, "charged once") || strings.Contains(out, "the key is") {
		t.Errorf("without the guard nobody reconciles, in:\n%s", out)
	}
}
