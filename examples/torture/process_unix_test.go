//go:build unix && !linux

package torture

import "syscall"

// dieWithParent is for Linux. Elsewhere a child ends when its standard input does, unless it is
// stopped.
func dieWithParent() *syscall.SysProcAttr { return nil }
