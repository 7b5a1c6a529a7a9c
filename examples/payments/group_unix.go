//go:build unix && !linux

package main

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from the children, so that the demo ends
// them in order. If the demo is killed, its own roles notice by their standard
// input; the Temporal dev server and a redis-server stay.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
