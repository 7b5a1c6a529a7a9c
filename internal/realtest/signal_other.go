//go:build !unix

package realtest

import "errors"

var errNoPause = errors.New("a process cannot be paused on this system")

func (p *process) pause() error { return errNoPause }

func (p *process) resume() error { return errNoPause }
