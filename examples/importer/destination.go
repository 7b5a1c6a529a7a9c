package main

import "sync"

// destination is where the batches go. It does not know what it has: a batch that comes twice
// is there twice.
type destination struct {
	mu      sync.Mutex
	written map[int]int // how often, by batch
}

func newDestination() *destination { return &destination{written: make(map[int]int)} }

func (d *destination) write(batch int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written[batch]++
}

// count says how many batches were written once, and how many more than once.
func (d *destination) count() (once, more int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.written {
		if n == 1 {
			once++
		} else {
			more++
		}
	}
	return once, more
}
