package realtest

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
)

// Child is the test binary once more, in a process of its own, to be killed.
type Child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser // open for as long as the parent lives
	errs  bytes.Buffer
	gone  chan struct{}
}

// StartChild starts the test binary with additions to the environment, which tell its TestMain what it is
// to be. Each line of its standard output is given to hear, in order. It ends with this process: on
// Linux by the kernel, elsewhere when it sees the end of its standard input.
func StartChild(hear func(line string), env ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: exec.Command(self)} //nolint:gosec,noctx // it is this test binary, and is killed
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = &c.errs
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	c.gone, err = startOwned(c.cmd, func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			hear(lines.Text())
		}
	})
	return c, err
}

// Gone is closed when the child has ended.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Kill ends the child at once, paused or not, and waits for that.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill()
	<-c.gone
}

// Signal sends the child a signal.
func (c *Child) Signal(s os.Signal) error { return c.cmd.Process.Signal(s) }

// Tell writes a line to the child's standard input.
func (c *Child) Tell(line string) { _, _ = io.WriteString(c.stdin, line+"\n") }

// State is how a child has ended that is gone.
func (c *Child) State() *os.ProcessState { return c.cmd.ProcessState }

// Errors is what the child has written to its standard error.
func (c *Child) Errors() string { return c.errs.String() }
