package main

import "syscall"

// ownGroup keeps the interrupt of a terminal, which is for all of its group, from a server that is
// still needed, and has the kernel end it with the thread that started it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
