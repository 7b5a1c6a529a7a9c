// Command leftovers runs a command and fails when it leaves a process behind:
//
//	leftovers go test ./...
//
// The exit code is that of the command, or 70 when it succeeded and something
// of it still runs. What listens on a TCP port is named with the port.
//
// On Linux whatever descends from the command is found, even if it went into a
// session of its own. Elsewhere it is what is new in our process group.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const (
	exitLeftovers = 70
	exitUsage     = 64

	// grace is for what ends by itself, a moment after its parent.
	grace = 5 * time.Second
	poll  = 100 * time.Millisecond
)

func main() { os.Exit(run(os.Args[1:])) }

func run(command []string) int {
	if len(command) == 0 {
		fmt.Fprintln(os.Stderr, "usage: leftovers command [argument ...]")
		return exitUsage
	}
	watch, err := newWatch()
	if err != nil {
		fmt.Fprintln(os.Stderr, "leftovers:", err)
		return exitUsage
	}
	code := execute(command)
	left, err := watch.settle(grace)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leftovers:", err)
		return exitLeftovers
	}
	for _, p := range left {
		fmt.Fprintln(os.Stderr, "leftovers: still running:", p)
	}
	if code == 0 && len(left) > 0 {
		return exitLeftovers
	}
	return code
}

// execute runs the command to its end. A signal from the terminal goes to it
// as well: we stay, to see what it leaves.
func execute(command []string) int {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...) //nolint:gosec // running it is our purpose
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "leftovers:", err)
		return 1
	}
	return reap(cmd.Process.Pid)
}

// reap waits for the command, and until then for the orphans that we adopt: one
// that nobody waits for would look alive to whoever asks for its process id.
func reap(command int) int {
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "leftovers: wait:", err)
			return 1
		case pid == command && status.Exited():
			return status.ExitStatus()
		case pid == command:
			return 128 + int(status.Signal())
		}
	}
}
