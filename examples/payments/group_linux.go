package main

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from the children, so that the demo ends
// them in order, and has the kernel kill them if the demo dies without a word.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
