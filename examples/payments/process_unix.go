//go:build unix

package main

import (
	"os"
	"syscall"
)

// killGroup ends a child at once, and with it what it has started. The child
// leads a process group of its own, see ownGroup.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

func interrupt(p *os.Process) { _ = p.Signal(os.Interrupt) }
