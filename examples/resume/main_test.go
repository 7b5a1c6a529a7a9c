package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

// asProgram makes the test binary be the program.
const asProgram = "ONCEGUARD_RESUME"

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

func TestResume_PostsEachBatchOnce(t *testing.T) {
	t.Parallel()
	temporal, redis := realtest.SharedTemporal(t).Addr(), realtest.SharedRedis(t).Addr()
	mustMatch(t, runProgram(t, 0, "-temporal", temporal, "-redis", redis),
		`attempt 1 begins with batch 1\n`,
		`dies: batch 4 is posted, and no heartbeat says so`,
		`attempt 2 begins with batch [2-4]\n`, // not from the beginning
		`batch 4: replayed\n`,
		`dies: batch 7 is posted, and nobody knows`,
		`attempt 3 begins with batch [3-7]\n`,
		`batch 7: recovered\n`,
		`each batch was posted once`,
	)
}

func TestResume_FailsWithTheGuardSwitchedOff(t *testing.T) {
	t.Parallel()
	temporal, redis := realtest.SharedTemporal(t).Addr(), realtest.SharedRedis(t).Addr()
	output := runProgram(t, 1, "-guard=off", "-temporal", temporal, "-redis", redis)
	mustMatch(t, output, `FAILED`, `batch/4 was posted [2-9] times`, `batch/7 was posted [2-9] times`)
	if regexp.MustCompile(`each batch was posted once`).MatchString(output) {
		t.Errorf("the program failed and says that it did not:\n%s", output)
	}
}
