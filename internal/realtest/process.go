package realtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

const (
	readyLimit = 60 * time.Second      // from the start of a server to its first answer
	readyPoll  = 10 * time.Millisecond // between two looks
	stopLimit  = 10 * time.Second      // from the polite signal to the kill
)

// process is a child that runs until it is stopped, or this process ends.
type process struct {
	cmd    *exec.Cmd
	output tail
	gone   chan struct{} // closed once the child has been waited for
}

// startProcess starts a child.
func startProcess(path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...)} //nolint:gosec,noctx // a test server that outlives the call
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = time.Second
	var err error
	if p.gone, err = startOwned(p.cmd, func() {}); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// startOwned starts a command that ends with this process. On Linux the kernel kills a child with
// the thread that started it, so that thread belongs to the child until it ends. It calls
// meanwhile before it waits for that, and then closes gone.
func startOwned(cmd *exec.Cmd, meanwhile func()) (gone chan struct{}, err error) {
	cmd.SysProcAttr = dieWithParent()
	gone = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			meanwhile()
			_ = cmd.Wait()
			close(gone)
		}
	}()
	return gone, <-started
}

// waitReady polls until ready says nil. It fails when the child ends first or
// the time limit passes, and says what the child printed last.
func (p *process) waitReady(ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.gone:
			return fmt.Errorf("%s ended: %s\n%s", p.cmd.Path, p.cmd.ProcessState, p.output.String())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready after %s: %w\n%s", p.cmd.Path, readyLimit, err, p.output.String())
		case <-ticker.C:
		}
	}
}

// stop asks the child to end, paused or not, and kills it if it does not.
func (p *process) stop() {
	_ = p.resume()
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.gone:
	case <-time.After(stopLimit):
		p.kill()
	}
}

// kill ends the child at once, without its knowledge.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// alive reports whether the child still runs.
func (p *process) alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// tail keeps the last of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if extra := len(t.buf) - tailSize; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
