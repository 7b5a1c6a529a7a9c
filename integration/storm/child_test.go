//go:build unix

package storm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

// asChild makes the test binary a worker. The value is its config.
const asChild = "ONCEGUARD_STORM_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := runChild([]byte(text)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	realtest.Main(m)
}

// What a child tells on its standard output, one a line. All but the first is counted.
const (
	wordReady         = "ready"
	wordCall          = "calls:" // and the outcome
	wordHook          = "hook:"  // and what it found
	wordTakeover      = "takeovers"
	wordCollision     = "collisions"
	wordReplayedLater = "replays in a later attempt of an activity"
)

// What the parent counts.
const (
	wordKill     = "kills"
	wordCutShort = "charges under way when their worker was killed"
	wordRefused  = "charges refused by the fence"
)

func tell(line string) { _, _ = io.WriteString(os.Stdout, line+"\n") }

func runChild(text []byte) error {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent is gone
	}()
	return c.serve(context.Background())
}

// child is a worker in a process of its own.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer // open for as long as the parent lives
	errs  bytes.Buffer
	ready chan struct{} // closed when it takes work
	gone  chan struct{} // closed when it has ended
}

// startChild starts a worker, and counts what it tells. The kernel kills it with the thread that started it, where it
// does that at all, so that thread is the child's until it ends.
func startChild(c config, sum *tally) (*child, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ch := &child{
		name: c.Name, cmd: exec.Command(self), //nolint:noctx // it is killed
		ready: make(chan struct{}), gone: make(chan struct{}),
	}
	ch.cmd.Env = append(os.Environ(), asChild+"="+string(text), "GORACE=halt_on_error=1 "+os.Getenv("GORACE"))
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
		ch.hear(stdout, sum)
		_ = ch.cmd.Wait()
		close(ch.gone)
	}()
	return ch, <-started
}

func (c *child) hear(stdout io.Reader, sum *tally) {
	ready := sync.OnceFunc(func() { close(c.ready) })
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if line := lines.Text(); line == wordReady {
			ready()
		} else {
			sum.add(line, 1)
		}
	}
}

// endedError is for a child that nobody has killed.
func (c *child) endedError() error {
	<-c.gone
	return fmt.Errorf("%s has ended by itself: %s\n%s", c.name, c.cmd.ProcessState, c.errs.String())
}

// kill ends the child at once.
func (c *child) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL)
	<-c.gone
}
