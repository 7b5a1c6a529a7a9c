package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary be the program, and the server that a careless
// test leaves behind.
func TestMain(m *testing.M) {
	switch os.Getenv("LEFTOVERS_TEST") {
	case "program":
		_ = os.Unsetenv("LEFTOVERS_TEST")
		os.Exit(run(os.Args[1:]))
	case "server":
		serve()
	default:
		os.Exit(m.Run())
	}
}

// serve listens, tells its process id through the file, and waits for the end.
func serve() {
	var config net.ListenConfig
	if _, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	_ = os.Stdout.Close()
	select {}
}

// program runs leftovers on a shell script.
func program(t *testing.T, script string) (code int, stderr string) {
	t.Helper()
	var said strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0], "sh", "-c", script)
	cmd.Env = append(os.Environ(), "LEFTOVERS_TEST=program", "SELF="+os.Args[0])
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // apart from the tests beside
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), said.String()
}

func TestLeftovers_NothingLeftPasses(t *testing.T) {
	t.Parallel()
	if code, stderr := program(t, "sleep 0.1 & wait"); code != 0 || stderr != "" {
		t.Errorf("exit code %d, said %q", code, stderr)
	}
}

func TestLeftovers_TheCodeOfAFailedCommandStays(t *testing.T) {
	t.Parallel()
	if code, _ := program(t, "exit 3"); code != 3 {
		t.Errorf("exit code %d", code)
	}
}

func TestLeftovers_ACommandThatIsKilledFailsAsInAShell(t *testing.T) {
	t.Parallel()
	if code, _ := program(t, "kill -9 $$"); code != 128+9 {
		t.Errorf("exit code %d", code)
	}
}

// A test may wait until the process that it orphaned is no more.
func TestLeftovers_AnOrphanThatDiesIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	code, stderr := program(t, `orphan=$(sh -c 'sleep 0.1 >/dev/null 2>&1 & echo $!')
		for i in $(seq 100); do kill -0 $orphan 2>/dev/null || exit 0; sleep 0.1; done; exit 1`)
	if code != 0 {
		t.Errorf("exit code %d, said %q", code, stderr)
	}
}

func TestLeftovers_WhatEndsByItselfInAMomentIsForgiven(t *testing.T) {
	t.Parallel()
	if code, stderr := program(t, "sleep 1 >/dev/null 2>&1 &"); code != 0 {
		t.Errorf("exit code %d, said %q", code, stderr)
	}
}

func TestLeftovers_AServerLeftBehindFailsAndIsNamedWithItsPort(t *testing.T) {
	t.Parallel()
	starts := map[string]string{"in the background": ""}
	if runtime.GOOS == "linux" {
		starts["in a session of its own"] = "setsid "
	}
	for name, prefix := range starts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pidFile := t.TempDir() + "/pid"
			t.Cleanup(func() { killByFile(t, pidFile) })
			code, stderr := program(t, "LEFTOVERS_TEST=server "+prefix+`"$SELF" >`+pidFile+` 2>/dev/null &
				until [ -s `+pidFile+` ]; do sleep 0.05; done`)
			if code != exitLeftovers || !strings.Contains(stderr, "listens on 127.0.0.1 port ") {
				t.Errorf("exit code %d, said %q", code, stderr)
			}
		})
	}
}

func TestLeftovers_WithoutACommandSaysHow(t *testing.T) {
	t.Parallel()
	if code := run(nil); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
}

func killByFile(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
