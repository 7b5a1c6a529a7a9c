package guard

import (
	"bytes"
	"time"
)

// memoryRecord is a record and when it leaves the store.
type memoryRecord struct {
	Record
	key     Key
	expires time.Time
	index   int // in the heap
}

// copy returns a record whose parts the caller may keep and change.
func (r Record) copy() Record {
	r.Result = bytes.Clone(r.Result)
	if r.TookOver != nil {
		previous := *r.TookOver
		r.TookOver = &previous
	}
	if r.Dispatch != nil {
		dispatch := *r.Dispatch
		r.Dispatch = &dispatch
	}
	if r.Kept != nil {
		kept := *r.Kept
		r.Kept = &kept
	}
	if r.Resolved != nil {
		resolver := *r.Resolved
		r.Resolved = &resolver
	}
	return r
}

// expiryHeap has the record that leaves next in front, for container/heap.
type expiryHeap []*memoryRecord

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }

func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *expiryHeap) Push(x any) {
	r := x.(*memoryRecord)
	r.index = len(*h)
	*h = append(*h, r)
}

func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return r
}
