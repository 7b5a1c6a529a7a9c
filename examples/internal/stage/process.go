package stage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Process is this program again, in another role.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer // open for as long as we live
	gone  chan struct{}
}

// StartSelf starts this program with other arguments. What it prints goes where ours
// does.
func StartSelf(args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self, args...), gone: make(chan struct{})} //nolint:gosec,noctx // it is this program, and is killed
	p.cmd.Stdout, p.cmd.Stderr = os.Stdout, os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

// Gone is closed when the process has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Kill ends the process, and waits for that.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// EndWithParent ends a process of StartSelf when the one that started it is gone.
func EndWithParent() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}

// Die kills this process: SIGKILL.
func Die(why string) error {
	fmt.Printf("worker %d dies: %s\n", os.Getpid(), why)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := self.Kill(); err != nil {
		return err
	}
	<-make(chan struct{}) // the signal may take a moment
	return errors.New("killed, and alive")
}
