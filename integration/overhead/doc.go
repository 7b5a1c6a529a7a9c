// Package overhead measures what the guard adds to an activity in a worker. scripts/bench.sh runs it
// and sets the figures against each other.
package overhead
