package guard

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// MemoryStore is a [Store] in the memory of one process: for tests (also in a
// bubble of testing/synctest, where time is virtual), for examples, and for
// effects that only one process causes. It guards nothing against another
// process and forgets everything with its own.
//
// It keeps no expired records: each write drops those whose time has come.
type MemoryStore struct {
	mu      sync.Mutex
	records map[Key]*memoryRecord
	expiry  expiryHeap
	watches map[Key]map[chan struct{}]struct{}
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{
		records: make(map[Key]*memoryRecord),
		watches: make(map[Key]map[chan struct{}]struct{}),
	}
}

// StoreName is the name of this kind of store in telemetry.
func (m *MemoryStore) StoreName() string { return "memory" }

// Len is the number of records, tombstones among them.
func (m *MemoryStore) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
	return len(m.records)
}

// Clear drops every record, as a server does that is flushed or fails over: tests
// see with it what a lost record does.
func (m *MemoryStore) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.records)
	m.expiry = nil
}

// Reserve implements [Store].
func (m *MemoryStore) Reserve(ctx context.Context, req ReserveRequest) (ReserveReply, error) {
	if err := ctx.Err(); err != nil {
		return ReserveReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin()
	next := Record{
		Version: SchemaVersion, Status: StatusPending, Owner: req.Owner, Fingerprint: req.Fingerprint,
		Fence: now.UnixMicro(), Attempt: 1, Created: now,
	}
	if old := m.records[req.Key]; old != nil {
		ours := old.Owner.Token == req.Owner.Token
		switch {
		case ours && old.Status == StatusPending:
			next = old.Record // the same acquisition, asked for again
		case ours, old.Status != StatusReleased && old.Until.After(now) && !old.is(req.Unreadable):
			return ReserveReply{Record: old.Record.copy(), Left: left(old.Until, now)}, nil
		default:
			next.Fence, next.Attempt = max(old.Fence+1, next.Fence), old.Attempt+1
			if old.Status == StatusPending {
				next.TookOver = &Previous{Owner: old.Owner, Fence: old.Fence}
			}
		}
	}
	next.Until, next.Updated = now.Add(req.Lease), now
	m.put(req.Key, next, now.Add(PendingLifetime(req.Lease, req.Retention)))
	return ReserveReply{Acquired: true, Record: next.copy(), Left: req.Lease}, nil
}

// Renew implements [Store].
func (m *MemoryStore) Renew(ctx context.Context, req RenewRequest) (RenewReply, error) {
	if err := ctx.Err(); err != nil {
		return RenewReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin()
	next, status := req.Record, RenewRestored
	switch old := m.records[req.Key]; {
	case old == nil && now.Before(req.Record.Until):
	case old != nil && old.Status == StatusPending && old.Owner.Token == req.Record.Owner.Token:
		next, status = old.Record, RenewOK
	default:
		return RenewReply{Status: RenewLost}, nil
	}
	next.Until, next.Updated = now.Add(req.Lease), now
	m.put(req.Key, next, now.Add(PendingLifetime(req.Lease, req.Retention)))
	return RenewReply{Status: status, Until: next.Until}, nil
}

// Replace implements [Store].
func (m *MemoryStore) Replace(ctx context.Context, req ReplaceRequest) (ReplaceReply, error) {
	if err := ctx.Err(); err != nil {
		return ReplaceReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin()
	next, status := req.Record, ReplaceRestored
	if next.Created.IsZero() { // its owner never learned of the reservation
		next.Fence, next.Attempt, next.Created = now.UnixMicro(), 1, now
	}
	if old := m.records[req.Key]; old != nil {
		ours := old.Owner.Token == req.Record.Owner.Token
		switch {
		case ours && old.Status != StatusReleased:
			next, status = old.Record, ReplaceStored
		case ours, old.Status != StatusReleased && old.Until.After(now):
			return ReplaceReply{Status: ReplaceStale}, nil
		default:
			next.Fence = max(old.Fence, next.Fence)
		}
	}
	next.Version, next.Status = SchemaVersion, StatusCompleted
	next.Encoding, next.Result = req.Encoding, req.Result
	next.Until, next.Updated = now.Add(req.Retention), now
	m.put(req.Key, next, now.Add(CompletedLifetime(req.Lease, req.Retention)))
	m.notify(req.Key)
	return ReplaceReply{Status: status}, nil
}

// Release implements [Store].
func (m *MemoryStore) Release(ctx context.Context, req ReleaseRequest) (ReleaseReply, error) {
	if err := ctx.Err(); err != nil {
		return ReleaseReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin()
	next, released := req.Record, false
	if old := m.records[req.Key]; old != nil {
		if old.Owner.Token != req.Record.Owner.Token || old.Status == StatusCompleted {
			return ReleaseReply{}, nil
		}
		next, released = old.Record, true
	}
	next.Version, next.Status = SchemaVersion, StatusReleased
	next.Fence = max(next.Fence, 1)
	next.Until, next.Updated = now.Add(req.Lease), now
	m.put(req.Key, next, next.Until)
	m.notify(req.Key)
	return ReleaseReply{Released: released}, nil
}

// Load implements [Store].
func (m *MemoryStore) Load(ctx context.Context, req LoadRequest) (LoadReply, error) {
	if err := ctx.Err(); err != nil {
		return LoadReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin()
	rec := m.records[req.Key]
	if rec == nil {
		return LoadReply{}, nil
	}
	return LoadReply{Found: true, Record: rec.Record.copy(), Left: left(rec.Until, now)}, nil
}

// Erase implements [Eraser].
func (m *MemoryStore) Erase(ctx context.Context, req EraseRequest) (EraseReply, error) {
	if err := ctx.Err(); err != nil {
		return EraseReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin()
	rec := m.records[req.Key]
	if rec == nil {
		return EraseReply{Erased: true}, nil
	}
	if rec.Status == StatusPending && rec.Until.After(now) {
		return EraseReply{Record: rec.Record.copy(), Left: left(rec.Until, now)}, nil
	}
	delete(m.records, req.Key)
	heap.Remove(&m.expiry, rec.index)
	return EraseReply{Erased: true}, nil
}

func left(until, now time.Time) time.Duration { return max(until.Sub(now), 0) }

// begin reads the clock and drops the records whose time has come.
func (m *MemoryStore) begin() time.Time {
	now := time.Now()
	for len(m.expiry) > 0 && !m.expiry[0].expires.After(now) {
		delete(m.records, heap.Pop(&m.expiry).(*memoryRecord).key)
	}
	return now
}

func (m *MemoryStore) put(key Key, rec Record, expires time.Time) {
	if old := m.records[key]; old != nil {
		old.Record, old.expires = rec.copy(), expires
		heap.Fix(&m.expiry, old.index)
		return
	}
	added := &memoryRecord{Record: rec.copy(), key: key, expires: expires}
	m.records[key] = added
	heap.Push(&m.expiry, added)
}
