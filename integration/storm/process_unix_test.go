//go:build unix && !linux

package storm

import "syscall"

// dieWithParent is for Linux. Elsewhere a child ends when its standard input does.
func dieWithParent() *syscall.SysProcAttr { return nil }
