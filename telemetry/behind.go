package telemetry

import "sync"

// maxBehind is how many lines may wait for the log handler.
const maxBehind = 1000

// behind writes log lines without making their source wait for the handler: the
// renewer of a lease must not be held up by a full pipe. Lines that come while
// maxBehind wait are dropped. Its goroutine lives only while there are lines.
type behind struct {
	mu      sync.Mutex
	lines   []func()
	running bool
}

// write takes a line, or returns false when there are too many.
func (b *behind) write(line func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) >= maxBehind {
		return false
	}
	b.lines = append(b.lines, line)
	if !b.running {
		b.running = true
		go b.run()
	}
	return true
}

func (b *behind) run() {
	unwound := true
	defer func() {
		if unwound { // a handler has exited the goroutine: the other lines are still to be written
			go b.run()
		}
	}()
	b.writeAll()
	unwound = false
}

func (b *behind) writeAll() {
	for {
		line, ok := b.next()
		if !ok {
			return
		}
		writeLine(line)
	}
}

func (b *behind) next() (line func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) == 0 {
		b.lines, b.running = nil, false
		return nil, false
	}
	line, b.lines = b.lines[0], b.lines[1:]
	return line, true
}

// writeLine contains a panic in the handler: nobody else would.
func writeLine(line func()) {
	defer func() { _ = recover() }()
	line()
}
