package redisx

import (
	"math"
	"time"
)

// Durations go to the scripts as whole units, rounded up: what was asked for is
// never cut short, and an expiry is never 0, which Redis refuses.

func inMicroseconds(d time.Duration) int64 { return max(ceil(d, time.Microsecond), 0) }

func inMilliseconds(d time.Duration) int64 { return max(ceil(d, time.Millisecond), 1) }

func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// microseconds is the duration that a script replies with, capped instead of
// wrapped around.
func microseconds(n int64) time.Duration {
	if n > math.MaxInt64/int64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Microsecond
}

// epoch is a point in time for the scripts, 0 for the zero time.
func epoch(t time.Time) int64 { return max(t.UnixMicro(), 0) }

// capped undoes the wrap-around of a sum of two durations that are not negative.
func capped(sum time.Duration) time.Duration {
	if sum < 0 {
		return math.MaxInt64
	}
	return sum
}
