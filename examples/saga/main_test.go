package main

import (
	"regexp"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) { realtest.ProgramMain(m, main) }

func TestSaga_ChargesAndRefundsOnce(t *testing.T) {
	t.Parallel()
	temporal, redis := realtest.SharedTemporal(t).Addr(), realtest.SharedRedis(t).Addr()
	for name, args := range map[string][]string{
		"in memory, on a dev server of its own": nil,
		"on Redis":                              {"-temporal", temporal, "-redis", redis},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			realtest.MustMatch(t, realtest.RunProgram(t, 0, args...),
				`answer-lost-\w+: ChargeCard, attempt 1, got no answer`,
				`answer-lost-\w+: ChargeCard, attempt \d+, asks what became of the first request: the bank has booked it`,
				`answer-lost-\w+: RefundCharge, attempt \d+, asks what became of the first request: the bank has booked it`,
				`answer-lost-\w+: charged 1 times, refunded 1 times`,
				`request-lost-\w+: ChargeCard, attempt \d+, asks what became of the first request: the bank has not booked it`,
				`request-lost-\w+: charged 1 times, refunded 1 times`,
				`declined-\w+: charged 0 times, refunded 0 times`,
				`each charge happened once`,
			)
		})
	}
}

func TestSaga_FailsWithTheGuardSwitchedOff(t *testing.T) {
	t.Parallel()
	output := realtest.RunProgram(t, 1, "-guard=off", "-temporal", realtest.SharedTemporal(t).Addr())
	realtest.MustMatch(t, output, `FAILED: answer-lost-\w+: 2 charges and 2 refunds, want 1 of each`)
	if regexp.MustCompile(`each charge happened once`).MatchString(output) {
		t.Errorf("the program failed and says that it did not:\n%s", output)
	}
}
