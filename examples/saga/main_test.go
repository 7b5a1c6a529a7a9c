package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

// asProgram makes the test binary be the program.
const asProgram = "ONCEGUARD_SAGA"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	realtest.Main(m)
}

// runProgram runs the program on real servers, wants its exit code, and returns its output.
func runProgram(t *testing.T, wantCode int, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	output, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != wantCode {
		t.Errorf("exit code %d, want %d, in:\n%s", code, wantCode, output)
	}
	return string(output)
}

func mustMatch(t *testing.T, output string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(output) {
			t.Errorf("%q is not in the output", pattern)
		}
	}
	if t.Failed() {
		t.Log(output)
	}
}

func TestSaga_ChargesAndRefundsOnce(t *testing.T) {
	t.Parallel()
	temporal, redis := realtest.SharedTemporal(t).Addr(), realtest.SharedRedis(t).Addr()
	for name, args := range map[string][]string{
		"in memory, on a dev server of its own": nil,
		"on Redis":                              {"-temporal", temporal, "-redis", redis},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustMatch(t, runProgram(t, 0, args...),
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
	output := runProgram(t, 1, "-guard=off", "-temporal", realtest.SharedTemporal(t).Addr())
	mustMatch(t, output, `FAILED: answer-lost-\w+: 2 charges and 2 refunds, want 1 of each`)
	if regexp.MustCompile(`each charge happened once`).MatchString(output) {
		t.Errorf("the program failed and says that it did not:\n%s", output)
	}
}
