package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A storm of log lines becomes a few lines and a count.

const (
	// DefaultLogBurst is the default of Options.LogBurst.
	DefaultLogBurst = 10
	logWindow       = time.Second
)

// collapsing are the messages whose lines are counted when there are many. The others are
// about a key that somebody must look at, such as one that ran without a reservation, or for debugging.
func collapsing() []string {
	return []string{
		msgTakeover, msgHit, msgRemembered, msgRecovered, msgCollision, msgMismatch, msgRefused, msgUnknown,
		msgRenewalFailed, msgStorageError,
	}
}

// storms are those of one operation, by message. What is not in it is always written.
type storms map[string]*storm

func newStorms(burst int) storms {
	if burst < 0 {
		return nil
	}
	all := storms{}
	for _, message := range collapsing() {
		all[message] = &storm{burst: burst}
	}
	return all
}

// storm counts the lines of one message.
type storm struct {
	burst int

	mu         sync.Mutex
	until      time.Time // the end of the window
	written    int
	suppressed int
}

// admit reports whether a line is to be written. The first that is not has tell called at the
// end of the window, with how many there were.
func (s *storm) admit(tell func(suppressed int)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !now.Before(s.until) && s.suppressed == 0 {
		s.until, s.written = now.Add(logWindow), 0
	}
	if s.suppressed == 0 && s.written < s.burst {
		s.written++
		return true
	}
	if s.suppressed++; s.suppressed == 1 {
		time.AfterFunc(time.Until(s.until), func() { tell(s.end()) })
	}
	return false
}

// end begins a new window.
func (s *storm) end() (suppressed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	suppressed, s.suppressed, s.until = s.suppressed, 0, time.Time{}
	return suppressed
}

// admits reports whether a line of the operation is to be written; its count is if it is not.
func (o *operation) admits(line logLine) bool {
	storm, ok := o.storms[line.message]
	return !ok || storm.admit(func(suppressed int) { o.tellSuppressed(line, suppressed) })
}

// tellSuppressed writes the line that stands for many. It comes from a timer: the handler may
// block.
func (o *operation) tellSuppressed(line logLine, suppressed int) {
	write := func() {
		o.logger.LogAttrs(context.Background(), line.level, line.message,
			slog.String(LogOperation, o.name), slog.Int(LogSuppressed, suppressed))
	}
	if !o.behind.write(write) {
		o.series.lineDropped()
	}
}
