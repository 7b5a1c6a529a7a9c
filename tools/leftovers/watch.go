package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// watch tells the processes of the command from all others.
type watch struct {
	self   int32
	group  int
	before map[int32]bool
}

func newWatch() (*watch, error) {
	if err := adoptOrphans(); err != nil {
		return nil, fmt.Errorf("adopt orphans: %w", err)
	}
	all, err := process.Processes()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	w := &watch{self: int32(os.Getpid()), group: syscall.Getpgrp(), before: map[int32]bool{}} //nolint:gosec // pids are small
	for _, p := range all {
		w.before[p.Pid] = true
	}
	return w, nil
}

// settle waits until nothing is left, at most for so long, and describes what is.
func (w *watch) settle(limit time.Duration) ([]string, error) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for deadline := time.Now().Add(limit); ; <-ticker.C {
		left, err := w.left()
		if err != nil {
			return nil, err
		}
		if len(left) == 0 {
			return nil, nil
		}
		if time.Now().After(deadline) {
			return describe(left), nil
		}
	}
}

// left lists the live processes of the command.
func (w *watch) left() ([]*process.Process, error) {
	all, err := process.Processes()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	parents := make(map[int32]int32, len(all))
	for _, p := range all {
		parents[p.Pid], _ = p.Ppid()
	}
	return slices.DeleteFunc(all, func(p *process.Process) bool {
		ours := descends(parents, p.Pid, w.self) || !w.before[p.Pid] && w.inGroup(p.Pid)
		return p.Pid == w.self || !ours || ended(p)
	}), nil
}

func descends(parents map[int32]int32, pid, ancestor int32) bool {
	for range len(parents) { // a bound, should the parents go in a circle
		parent, ok := parents[pid]
		if !ok || parent == pid {
			return false
		}
		if parent == ancestor {
			return true
		}
		pid = parent
	}
	return false
}

func (w *watch) inGroup(pid int32) bool {
	group, err := syscall.Getpgid(int(pid))
	return err == nil && group == w.group
}

// ended reports that a process is gone, or dead and not yet waited for.
func ended(p *process.Process) bool {
	status, err := p.Status()
	return err != nil || slices.Contains(status, process.Zombie)
}

// describe names each process by id, command line and ports.
func describe(left []*process.Process) []string {
	lines := make([]string, 0, len(left))
	for _, p := range left {
		line, _ := p.Cmdline()
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("process %d: %s%s", p.Pid, line, listening(p.Pid))))
	}
	return lines
}

func listening(pid int32) string {
	conns, _ := net.ConnectionsPid("tcp", pid)
	var ports strings.Builder
	for _, c := range conns {
		if c.Status == "LISTEN" {
			fmt.Fprintf(&ports, ", listens on %s port %d", c.Laddr.IP, c.Laddr.Port)
		}
	}
	return ports.String()
}
