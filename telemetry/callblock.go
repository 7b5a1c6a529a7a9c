package telemetry

import "sync"

// callsPerBlock is small, since one call that goes on for long keeps its whole block.
const callsPerBlock = 8

// callBlocks makes calls, many with one allocation. A call is not used twice: what a store
// holds up is told after the end of its call, and nobody knows which event is the last.
type callBlocks struct {
	mu    sync.Mutex
	fresh []call
}

func (b *callBlocks) next() *call {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.fresh) == 0 {
		b.fresh = make([]call, callsPerBlock)
	}
	c := &b.fresh[0]
	b.fresh = b.fresh[1:]
	return c
}
