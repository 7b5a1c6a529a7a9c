//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

// asProgram makes the test binary be the program.
const asProgram = "ONCEGUARD_FENCING"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	realtest.Main(m)
}

func TestLedger(t *testing.T) {
	t.Parallel()
	l := Ledger{openDatabase(t, startPostgres(t))}
	if err := l.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, Ledger){
		"RefusesAnOldFence":                  refusesAnOldFence,
		"NotFoundIsFinalForWhoeverWasBefore": notFoundIsFinal,
		"TheLargestOfConcurrentFencesStays":  theLargestStays,
	} {
		t.Run(name, func(t *testing.T) { test(t, l) })
	}
}

func refusesAnOldFence(t *testing.T, l Ledger) {
	t.Helper()
	write := func(clerk string, fence int64) error {
		return l.Write(t.Context(), Entry{"order-1", 4999, clerk}, fence)
	}
	for _, step := range []struct {
		clerk  string
		fence  int64
		want   error
		writer string // after it
	}{
		{"anna", 10, nil, "anna"},
		{"bob", 11, nil, "bob"},
		{"anna", 10, ErrFenceTooOld, "bob"},
		{"bob again", 11, nil, "bob again"},
	} {
		if err := write(step.clerk, step.fence); !errors.Is(err, step.want) {
			t.Errorf("%s with fence %d: error %v, want %v", step.clerk, step.fence, err, step.want)
		}
		wantRow(t, l, "order-1", step.writer)
	}
	if err := l.Write(t.Context(), Entry{"order-2", 1, "anna"}, 1); err != nil {
		t.Errorf("another order: %v", err)
	}
}

// Whoever asked and found nothing may run: what was before it must not arrive later.
func notFoundIsFinal(t *testing.T, l Ledger) {
	t.Helper()
	ask := func(fence int64, wantFound bool, want error) {
		t.Helper()
		if _, found, err := l.Ask(t.Context(), "asked", fence); found != wantFound || !errors.Is(err, want) {
			t.Errorf("found %v, error %v, want %v, %v", found, err, wantFound, want)
		}
	}
	ask(11, false, nil)
	if err := l.Write(t.Context(), Entry{"asked", 4999, "anna"}, 10); !errors.Is(err, ErrFenceTooOld) {
		t.Errorf("the late write: error %v, want ErrFenceTooOld", err)
	}
	ask(11, false, nil)
	if err := l.Write(t.Context(), Entry{"asked", 4999, "bob"}, 11); err != nil {
		t.Error(err)
	}
	ask(12, true, nil)
	ask(11, false, ErrFenceTooOld)
	if err := l.Write(t.Context(), Entry{"asked", 4999, "bob"}, 11); !errors.Is(err, ErrFenceTooOld) {
		t.Errorf("a write after the hook's question: error %v, want ErrFenceTooOld", err)
	}
	wantRow(t, l, "asked", "bob")
}

// The condition and the write are one step: of all that write at once the largest fence
// stays.
func theLargestStays(t *testing.T, l Ledger) {
	t.Helper()
	var clerks sync.WaitGroup
	for fence := int64(1); fence <= 20; fence++ {
		clerks.Go(func() {
			err := l.Write(t.Context(), Entry{"at-once", 1, strconv.FormatInt(fence, 10)}, fence)
			if err != nil && !errors.Is(err, ErrFenceTooOld) {
				t.Error(err)
			}
		})
	}
	clerks.Wait()
	wantRow(t, l, "at-once", "20")
}

// An owner that sleeps past its lease does not know that another one has its key.
func TestProgram_AnOwnerThatLostItsLeaseWritesNothing(t *testing.T) {
	t.Parallel()
	redis := realtest.SharedRedis(t).Addr()
	url := startPostgres(t)
	args := []string{"-database", url, "-redis", redis, "-lease", "600ms", "-order", t.Name()}

	anna := startProgram(t, append(args, "-clerk", "anna", "-halt")...)
	anna.await(t, "anna has ")
	anna.signal(t, syscall.SIGSTOP)
	bob := startProgram(t, append(args, "-clerk", "bob")...)
	bob.end(t, 0, `bob has \S+, with fence \d+\n\S+: 4999 cents, written by bob \(executed\)`)
	anna.signal(t, syscall.SIGCONT)
	if _, err := io.WriteString(anna.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
	anna.end(t, 1, `fencing: the fence is too old, .*: nothing was written`)
	carol := startProgram(t, append(args, "-clerk", "carol")...)
	carol.end(t, 0, `^\S+: 4999 cents, written by bob \(replayed\)`)
	wantRow(t, Ledger{openDatabase(t, url)}, t.Name(), "bob")
}

// The owner dies with the row written, and the store has no result.
func TestProgram_FindsTheRowOfAnOwnerThatDied(t *testing.T) {
	t.Parallel()
	redis := realtest.SharedRedis(t).Addr()
	url := startPostgres(t)
	args := []string{"-database", url, "-redis", redis, "-lease", "600ms", "-order", t.Name()}

	anna := startProgram(t, append(args, "-clerk", "anna", "-halt")...)
	anna.await(t, "anna has ")
	fence := regexp.MustCompile(`fence (\d+)`).FindStringSubmatch(anna.output.String())[1]
	anna.signal(t, syscall.SIGKILL)
	l := Ledger{openDatabase(t, url)}
	if _, err := l.db.ExecContext(t.Context(), // as if it had died a moment later
		`insert into ledger values ($1, 4999, 'anna', $2::bigint)`, t.Name(), fence); err != nil {
		t.Fatal(err)
	}
	bob := startProgram(t, append(args, "-clerk", "bob")...)
	bob.end(t, 0, `^\S+: 4999 cents, written by anna \(recovered\)`)
}

func TestMeaning_TellsDefiniteErrorsFromOthers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want guard.Disposition
	}{
		{ErrFenceTooOld, guard.Release},
		{&pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "23514"}, guard.Release},
		{&pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "23514"}, guard.Release},
		{&pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"}, guard.Undecided},
		{&pgconn.PgError{Severity: "ERROR", Code: "23514"}, guard.Undecided},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, guard.Undecided},
		{context.DeadlineExceeded, guard.Undecided},
	} {
		if got := meaning(fmt.Errorf("write: %w", test.err), true); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

func wantRow(t *testing.T, l Ledger, order, clerk string) {
	t.Helper()
	var rows int
	var got string
	err := l.db.QueryRowContext(t.Context(),
		`select count(*), coalesce(min(clerk), '') from ledger where name = $1`, order).Scan(&rows, &got)
	if err != nil {
		t.Fatal(err)
	}
	if rows != 1 || got != clerk {
		t.Errorf("%d rows, written by %q, want 1 by %q", rows, got, clerk)
	}
}

// program is the program in a process of its own.
type program struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	output *syncBuffer
	gone   <-chan struct{}
}

const limit = 60 * time.Second

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: exec.CommandContext(t.Context(), self, args...), output: &syncBuffer{}}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = p.output, p.output, dieWithParent(nil)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.gone, err = start(p.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.gone
	})
	return p
}

func (p *program) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (p *program) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(limit); !strings.Contains(p.output.String(), text); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q does not come, in:\n%s", text, p.output.String())
		}
	}
}

// end waits for the program and wants its exit code and output.
func (p *program) end(t *testing.T, code int, pattern string) {
	t.Helper()
	timer := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	<-p.gone
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	if !regexp.MustCompile(pattern).MatchString(p.output.String()) {
		t.Errorf("%q is not in:\n%s", pattern, p.output.String())
	}
}

// syncBuffer keeps what is written, while it is read.
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
	return string(slices.Clone(b.buf.Bytes()))
}
