package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestDemo_ChargesOnceWithTheGuardAndTwiceWithout(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "-redis", "server")
	output := p.wait(t, 0)
	p.mustMatch(t, output,
		`SIGKILL: worker-\d+ is dead`,
		`guard: lease acquired \(fence \d+\)`,
		`guard: key is reserved by another owner \(.*owner worker-\d+/\d+`,
		`guard: stored result returned`,
		`guard: key taken over from an owner that is gone`,
		`asks the provider what became of the charge of worker-\d+/\d+`,
		`guard: result of an owner that is gone recovered`,
		`│ a worker dies right after the charge +│ +([2-9]|\d\d) │ +1 │`,
		`│ a worker dies between charge and report +│ +([2-9]|\d\d) │ +1 │`,
		`│ 10 concurrent duplicates of one order +│ +\d\d │ +1 │`,
		`│ calls replayed +│ +0 │ +[1-9]\d* │ +[1-9]\d* │`,
		`│ calls recovered +│ +1 │ +0 │ +0 │`,
		`│ takeovers +│ +1 │ +0 │ +0 │`,
		`│ lease renewals +│ +[1-9]\d* │ +[1-9]\d* │ +[1-9]\d* │`,
	)
}

func TestDemo_WorksWithoutARedisServer(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "-redis", "embedded")
	p.mustMatch(t, p.wait(t, 0), `an embedded imitation`, `proves nothing about Redis`)
}

// The demo is worth something only if it can fail.
func TestDemo_FailsWithTheGuardSwitchedOff(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "-guard", "off")
	output := p.wait(t, 1)
	p.mustMatch(t, output,
		`FAILED: a worker dies right after the charge, with the guard: \d+ charges, expected exactly one`,
		`FAILED: a worker dies between charge and report, with the guard: \d+ charges, expected exactly one`,
		`FAILED: 10 concurrent duplicates of one order, with the guard: \d+ charges, expected exactly one`,
	)
	if strings.Contains(output, closing) {
		t.Errorf("the demo failed and says that every order was charged once:\n%s", output)
	}
}

func TestDemo_EndsItsChildrenWhenInterrupted(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	p.output.await(t, "asks the provider for a charge")
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.mustMatch(t, p.wait(t, 1), "payments demo: .*interrupt")
}

// Without this it would wait for the dead until its time limit.
func TestDemo_FailsAtOnceWhenAChildDies(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	p.output.await(t, "asks the provider for a charge")
	ready := regexp.MustCompile(`worker-1 is ready, process (\d+)`).FindStringSubmatch(p.output.String())
	if ready == nil {
		t.Fatalf("no worker-1 in:\n%s", p.output.String())
	}
	pid, _ := strconv.Atoi(ready[1])
	worker, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Kill(); err != nil {
		t.Fatal(err)
	}
	p.mustMatch(t, p.wait(t, 1), `payments demo: .*worker-1 ended before its time: signal: killed`)
}

func TestDemo_EndsItsChildrenAtItsTimeLimit(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "-limit", "2s")
	p.mustMatch(t, p.wait(t, 1), `the demo has not ended within its limit of 2s`)
}

func TestDemo_LeavesNoChildBehindWhenKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the servers of a demo that is killed")
	}
	p := startProgram(t)
	p.output.await(t, "asks the provider for a charge")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait(t, -1)
}

// runLimit is longer than a demo takes on a machine that is busy with tests.
const runLimit = 90 * time.Second

// programRun is the program in a process of its own.
type programRun struct {
	cmd    *exec.Cmd
	output *syncBuffer
	// mark is in the environment of the program and all its children, and of no other
	// run of the same test on this machine.
	mark string
}

func startProgram(t *testing.T, args ...string) *programRun {
	t.Helper()
	temporal := needServers(t)
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	t.Cleanup(cancel)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &programRun{
		cmd: exec.CommandContext(ctx, self, args...), output: &syncBuffer{},
		mark: asProgram + "=" + t.Name() + "-" + rand.Text(),
	}
	p.cmd.Env = append(os.Environ(), p.mark, "ONCEGUARD_TEMPORAL="+temporal)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = 20 * time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// wait waits for the program, wants its exit code and that it left no child. It
// returns the output.
func (p *programRun) wait(t *testing.T, wantCode int) string {
	t.Helper()
	err := p.cmd.Wait()
	output := p.output.String()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Errorf("run the demo: %v", err)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != wantCode {
		t.Errorf("exit code %d, want %d, in:\n%s", code, wantCode, output)
	}
	left := p.leftovers(t, output)
	for end := time.Now().Add(5 * time.Second); len(left) > 0 && time.Now().Before(end); left = p.leftovers(t, output) {
		<-time.After(20 * time.Millisecond) // the kernel buries the killed
	}
	if len(left) > 0 {
		t.Errorf("the demo left %q", left)
	}
	return output
}

// leftovers finds what is left of a program that has ended: its children by
// their mark, except that redis-server writes over its environment, and what
// listens on a port that the program told of.
func (p *programRun) leftovers(t *testing.T, output string) []string {
	t.Helper()
	left := p.children(t)
	dialer := net.Dialer{Timeout: time.Second}
	for _, address := range regexp.MustCompile(`127\.0\.0\.1:\d+`).FindAllString(output, -1) {
		if conn, err := dialer.DialContext(context.Background(), "tcp", address); err == nil {
			_ = conn.Close()
			left = append(left, address)
		}
	}
	return left
}

// children finds the processes that have the mark in their environment.
func (p *programRun) children(t *testing.T) (commands []string) {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environments { // none but on Linux
		environment, err := os.ReadFile(path)
		if err == nil && bytes.Contains(environment, []byte(p.mark+"\x00")) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			commands = append(commands, string(bytes.ReplaceAll(command, []byte{0}, []byte(" "))))
		}
	}
	return commands
}

func (p *programRun) mustMatch(t *testing.T, output string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(output) {
			t.Errorf("%q is not in the output:\n%s", pattern, output)
		}
	}
}

// needServers skips a test for want of servers, or fails it where they are
// required. It returns the path of the Temporal CLI.
func needServers(t *testing.T) string {
	t.Helper()
	temporal, err := servers()
	switch {
	case err == nil:
		return temporal
	case os.Getenv("ONCEGUARD_REQUIRE_SERVERS") == "1":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return ""
}

// servers looks for the servers, once. It does not have patience for a build
// of the Temporal CLI that nobody requires.
var servers = sync.OnceValues(func() (temporal string, err error) {
	if _, err := findRedis(); err != nil {
		return "", err
	}
	ctx := context.Background()
	if os.Getenv("ONCEGUARD_REQUIRE_SERVERS") != "1" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
	}
	f := &family{console: newConsole(os.Stderr, func(error) {}), ended: func(error) {}}
	defer f.end()
	return findTemporal(ctx, f)
})

// syncBuffer keeps what is written and can be waited on.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(runLimit); !strings.Contains(b.String(), text); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q does not come, in:\n%s", text, b.String())
		}
	}
}
