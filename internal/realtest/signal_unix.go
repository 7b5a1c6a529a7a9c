//go:build unix

package realtest

import "syscall"

// pause freezes the child: its connections stay open and nothing answers.
func (p *process) pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
