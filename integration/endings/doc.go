// Package endings measures, on a real Temporal server and a real Redis, what is left after each
// way in which an attempt of a guarded activity ends: how many effects, what the workflow got, the
// record, the metrics. It holds the table of docs/temporal.md to that.
//
// After a change that is meant:
//
//	go -C integration test ./endings -update
package endings
