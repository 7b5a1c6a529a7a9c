package realtest

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// asProgram makes the test binary of a program be the program, so that it has the race
// detector when the tests have it.
const asProgram = "ONCEGUARD_AS_PROGRAM"

// ProgramMain is [Main] for the tests of a program, whose main function RunProgram runs.
func ProgramMain(m *testing.M, main func()) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	Main(m)
}

// RunProgram runs the program in a process of its own, wants its exit code, and returns
// its output. On Linux the program ends with this process.
func RunProgram(tb testing.TB, wantCode int, args ...string) string {
	tb.Helper()
	var output bytes.Buffer
	cmd := exec.CommandContext(tb.Context(), os.Args[0], args...) //nolint:gosec // it is this test binary
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = &output, &output
	gone, err := startOwned(cmd, func() {})
	if err != nil {
		tb.Fatal(err)
	}
	<-gone
	if code := cmd.ProcessState.ExitCode(); code != wantCode {
		tb.Errorf("exit code %d, want %d, in:\n%s", code, wantCode, output.String())
	}
	return output.String()
}

// MustMatch wants every pattern in the output.
func MustMatch(tb testing.TB, output string, patterns ...string) {
	tb.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(output) {
			tb.Errorf("%q is not in the output", pattern)
		}
	}
	if tb.Failed() {
		tb.Log(output)
	}
}
