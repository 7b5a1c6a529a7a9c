//go:build unix

package main

import (
	"os/exec"
	"runtime"
)

// start starts a process and waits for it. The kernel kills it with the thread that started it,
// where it does that at all, so that thread is the process's until it ends. Elsewhere a program
// that is stopped when the test is killed stays.
func start(cmd *exec.Cmd) (gone <-chan struct{}, err error) {
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(ended)
		}
	}()
	return ended, <-started
}
