package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Process is a child that ends with this process: on Linux by the kernel, also if this process is
// killed. Elsewhere a worker sees the end of its standard input, and a server stays.
type Process struct {
	cmd  *exec.Cmd
	gone chan struct{}
}

// start starts a child. The kernel kills it with the thread that started it, so that thread belongs
// to the child until it ends.
func start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, gone: make(chan struct{})}
	cmd.SysProcAttr = diesWithUs()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.gone)
		}
	}()
	return p, <-started
}

const workerRole = "worker"

// StartWorker starts this program as a worker, see [MainOfTwo]. What it prints goes where ours does.
func StartWorker(config any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	arg, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, workerRole, string(arg)) //nolint:gosec,noctx // it is this program, and is killed
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // open for as long as we live
		return nil, err
	}
	return start(cmd)
}

// Gone is closed when the process has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Kill ends the process, and waits for that.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// stop asks the process to end, and kills it if it does not.
func (p *Process) stop() {
	if p.cmd.Process.Signal(os.Interrupt) == nil {
		select {
		case <-p.gone:
			return
		case <-time.After(stopPatience):
		}
	}
	p.Kill()
}

const stopPatience = 5 * time.Second

// endWithParent ends a worker when the process that started it is gone.
func endWithParent() {
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
