//go:build unix

package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onceguard/onceguard/internal/realtest"
)

// asChild makes the test binary a child. The value is its config.
const asChild = "ONCEGUARD_TORTURE_CHILD"

// patience is how long anything may take on a machine that is busy with tests.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := runChild([]byte(text)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	realtest.Main(m)
}

// What a child tells on its standard output, one a line.
const (
	wordCalling = "calling" // the call begins
	wordRuns    = "runs"    // its action
	wordHalts   = "halts"   // at its point, until it gets a line
	wordGot     = "got"     // a report
)

// runChild makes one call.
func runChild(text []byte) error {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	goOn := make(chan struct{})
	go func() {
		in := bufio.NewReader(os.Stdin)
		if _, err := in.ReadString('\n'); err == nil {
			close(goOn)
			_, _ = in.ReadString('\n')
		}
		os.Exit(1) // the parent is gone
	}()
	var halted atomic.Bool
	p, err := newPayer(c, func(at point) {
		if at == inAction {
			fmt.Println(wordRuns)
		}
		if at == c.Halt && !halted.Swap(true) {
			fmt.Println(wordHalts)
			<-goOn
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	fmt.Println(wordCalling)
	line, err := json.Marshal(reportOf(p.pay(ctx)))
	fmt.Printf("%s %s\n", wordGot, line)
	return err
}

// child is a process that makes a call. A channel of it is closed when the child has told so.
type child struct {
	cmd                  *exec.Cmd
	stdin                io.WriteCloser
	errs                 bytes.Buffer
	runs                 atomic.Int64
	calling, halts, gone chan struct{}
	got                  chan report // one, if it lives to tell
}

// startChild starts a child. The kernel kills it with the thread that started it, where it
// does that at all, so that thread is the child's until it ends.
func startChild(c config) (*child, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ch := &child{
		cmd:     exec.Command(self), //nolint:noctx // it ends by itself, or is killed
		calling: make(chan struct{}), halts: make(chan struct{}), gone: make(chan struct{}),
		got: make(chan report, 1),
	}
	ch.cmd.Env = append(os.Environ(), asChild+"="+string(text),
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // the race detector else takes a second to say goodbye
	ch.cmd.Stderr, ch.cmd.SysProcAttr = &ch.errs, dieWithParent()
	stdout, err := ch.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if ch.stdin, err = ch.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := ch.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		ch.hear(stdout)
		_ = ch.cmd.Wait()
		close(ch.gone)
	}()
	return ch, <-started
}

func (c *child) hear(stdout io.Reader) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		switch word, detail, _ := strings.Cut(lines.Text(), " "); word {
		case wordCalling:
			close(c.calling)
		case wordRuns:
			c.runs.Add(1)
		case wordHalts:
			close(c.halts)
		case wordGot:
			var r report
			if json.Unmarshal([]byte(detail), &r) == nil {
				c.got <- r
			}
		}
	}
}

// await waits until the child, or the network for it, is at a point. It returns false
// when the child has ended without.
func (c *child) await(reached <-chan struct{}) (bool, error) {
	select {
	case <-reached:
		return true, nil
	case <-c.gone:
		return false, nil
	case <-time.After(patience):
		return false, errors.New("the child does not get on")
	}
}

// kill ends the child at once, stopped or not.
func (c *child) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL)
	<-c.gone
}

func (c *child) stop() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }

// resume wakes a child that was stopped, and lets it go on from the point where it
// halts. That fails if it has ended, which its report tells.
func (c *child) resume() {
	_, _ = io.WriteString(c.stdin, "\n")
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
}

// report waits for what the child got.
func (c *child) report() (report, error) {
	select {
	case <-c.gone:
	case <-time.After(patience):
		c.kill()
		return report{}, errors.New("the child does not end")
	}
	if !c.cmd.ProcessState.Success() {
		return report{}, fmt.Errorf("the child failed: %s\n%s", c.cmd.ProcessState, c.errs.String())
	}
	return <-c.got, nil
}
