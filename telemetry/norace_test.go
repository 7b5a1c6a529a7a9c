//go:build !race

package telemetry_test

// raceEnabled tells tests of allocations that the race detector adds some.
const raceEnabled = false
