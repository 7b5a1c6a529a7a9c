package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A line of a child that begins with signalMark is meant for the demo. Its first
// word is one of these.
const (
	signalMark  = "@"
	wordReady   = "ready"   // serves; the detail is where
	wordHolding = "holding" // holds back a receipt, or a report to Temporal
)

const (
	politeLimit = 5 * time.Second // from the request to end to the kill
	tailLines   = 20              // of a child that ends too early
)

// program says how to start a child.
type program struct {
	name  string // of its lines
	path  string
	args  []string
	dir   string
	env   []string // added to our own
	quiet bool     // keep its lines for the case that it fails
	// ours means that it is this program in another role: it ends when its
	// standard input does. Others are interrupted.
	ours bool
	// answer takes the lines of the standard output of a program that does one
	// thing and ends by itself, see child.finish.
	answer func(line string)
}

// child is a process that the demo started.
type child struct {
	program
	cmd     *exec.Cmd
	console *console
	stdin   io.Closer
	signals chan string
	last    lines
	asked   atomic.Bool   // it was asked to end, or killed
	gone    chan struct{} // closed once it was waited for
}

// startChild starts a child. On Linux the kernel kills a child with the thread
// that started it, so that thread belongs to the child until it ends. When it
// ends and nobody asked it to, ended is told.
func startChild(con *console, p program, ended func(error)) (*child, error) {
	c := &child{
		program: p, console: con, cmd: exec.Command(p.path, p.args...), //nolint:gosec,noctx // no user chooses it, and family.end ends it
		signals: make(chan string, 16), gone: make(chan struct{}),
	}
	out, errs := &lineWriter{emit: c.heard}, &lineWriter{emit: c.heard}
	if p.answer != nil {
		out.emit = p.answer
		c.asked.Store(true)
	}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = p.dir, out, errs
	c.cmd.Env = append(os.Environ(), p.env...)
	c.cmd.SysProcAttr, c.cmd.WaitDelay = ownGroup(), time.Second
	var err error
	if p.ours {
		if c.stdin, err = c.cmd.StdinPipe(); err != nil {
			return nil, err
		}
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = c.cmd.Wait()
		out.flush()
		errs.flush()
		close(c.gone)
		if !c.asked.Load() {
			ended(c.endedError())
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return c, nil
}

// heard takes a line of the child: for the demo, or to show.
func (c *child) heard(line string) {
	if signal, ok := strings.CutPrefix(line, signalMark); ok {
		select {
		case c.signals <- signal:
		default: // told already, more than once
		}
		return
	}
	c.last.add(line)
	if !c.quiet {
		c.console.line(c.name, line)
	}
}

// await waits until the child tells the word, and returns its detail.
func (c *child) await(ctx context.Context, word string) (string, error) {
	for {
		select {
		case signal := <-c.signals:
			if got, detail, _ := strings.Cut(signal, " "); got == word {
				return detail, nil
			}
		case <-c.gone:
			return "", c.endedError()
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// finish waits until a child that ends by itself has done so.
func (c *child) finish(ctx context.Context) error {
	select {
	case <-c.gone:
		if c.cmd.ProcessState.Success() {
			return nil
		}
		return fmt.Errorf("%s: %s\n%s", c.name, c.cmd.ProcessState, c.last.String())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *child) endedError() error {
	err := fmt.Errorf("%s ended before its time: %s", c.name, c.cmd.ProcessState)
	if c.quiet {
		err = fmt.Errorf("%w\n%s", err, c.last.String())
	}
	return err
}

// kill ends the child at once, without its knowledge: SIGKILL.
func (c *child) kill() {
	c.asked.Store(true)
	if c.alive() {
		killGroup(c.cmd.Process)
	}
	<-c.gone
}

// end asks the child to end, and kills it if it does not.
func (c *child) end() {
	c.asked.Store(true)
	if c.stdin != nil {
		_ = c.stdin.Close()
	} else {
		interrupt(c.cmd.Process)
	}
	select {
	case <-c.gone:
	case <-time.After(politeLimit):
		c.kill()
	}
}

func (c *child) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// family is every child of the demo.
type family struct {
	console  *console
	ended    func(error) // told when one ends that nobody asked to
	mu       sync.Mutex
	children []*child
	closed   bool
}

var errClosing = errors.New("the demo is ending")

func (f *family) start(p program) (*child, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosing
	}
	c, err := startChild(f.console, p, f.ended)
	if err == nil {
		f.children = append(f.children, c)
	}
	return c, err
}

// end ends all children, those first that use the others: the last ones started.
func (f *family) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, c := range slices.Backward(f.children) {
		c.end()
	}
}
