package main

import (
	"bytes"
	"strings"
	"sync"
)

// lineWriter cuts what is written to it into lines. One goroutine writes.
type lineWriter struct {
	emit func(line string)
	rest []byte
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}
		w.emit(strings.TrimRight(string(line), "\r"))
		w.rest = rest
	}
}

// flush emits what has come since the last end of a line.
func (w *lineWriter) flush() {
	if len(w.rest) > 0 {
		w.emit(string(w.rest))
		w.rest = nil
	}
}

// lines keeps the last lines of a process.
type lines struct {
	mu   sync.Mutex
	kept []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, line)
	if extra := len(l.kept) - tailLines; extra > 0 {
		l.kept = l.kept[extra:]
	}
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.kept, "\n")
}
