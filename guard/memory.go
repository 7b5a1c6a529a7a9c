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
// The zero value is an empty store, ready for use.
//
// It keeps no expired records for long: each call drops up to ten of them.
type MemoryStore struct {
	mu      sync.Mutex
	records map[Key]*memoryRecord
	expiry  expiryHeap
	watches map[Key]map[chan struct{}]struct{}
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{}
}

// StoreName is the name of this kind of store in telemetry.
func (m *MemoryStore) StoreName() string { return "memory" }

// Len is the number of records, tombstones among them, and expired ones that no
// call has dropped yet.
func (m *MemoryStore) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	now := m.begin(req.Key)
	next := Record{
		Version: SchemaVersion, Status: StatusPending, Owner: req.Owner, Fingerprint: req.Fingerprint,
		Fence: now.UnixMicro(), Attempt: 1, Created: now,
	}
	if old := m.records[req.Key]; old != nil {
		switch free, flip := old.freeTo(req, now); {
		case old.Owner.Token == req.Owner.Token && old.Status == StatusPending:
			next = old.Record // the same acquisition, asked for again
		case flip:
			old.Status, old.Until, old.Kept = StatusHeld, old.expires, nil
			return ReserveReply{Record: old.Record.copy(), Left: left(old.Until, now), Held: true}, nil
		case !free:
			return ReserveReply{Record: old.Record.copy(), Left: left(old.Until, now)}, nil
		default:
			next.follows(old.Record, now)
		}
	}
	if req.Dispatched {
		next.dispatch(now)
	}
	m.hold(req.Key, &next, now, PendingLifetime(req.Lease, req.Retention),
		DispatchedLifetime(req.Lease, req.Retention, req.HoldRetention), req.Lease)
	return ReserveReply{Acquired: true, Record: next.copy(), Left: left(next.Until, now)}, nil
}

// Renew implements [Store].
func (m *MemoryStore) Renew(ctx context.Context, req RenewRequest) (RenewReply, error) {
	if err := ctx.Err(); err != nil {
		return RenewReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin(req.Key)
	next, status := req.Record, RenewRestored
	next.Until = now
	switch old := m.records[req.Key]; {
	case old == nil && now.Before(req.Record.Until):
	case old != nil && old.Status == StatusPending && old.Owner.Token == req.Record.Owner.Token:
		next, status = old.Record, RenewOK
	default:
		return RenewReply{Status: RenewLost}, nil
	}
	if req.NothingFound && next.evidence() {
		next.Dispatch, next.Fingerprint = nil, req.Record.Fingerprint
	}
	if req.Keep != nil {
		next.Kept = req.Keep
	}
	if req.Dispatched {
		next.dispatch(now)
	}
	m.hold(req.Key, &next, now, PendingLifetime(req.Lease, req.Retention),
		DispatchedLifetime(req.Lease, req.Retention, req.HoldRetention), req.Lease)
	return RenewReply{Status: status, Until: next.Until}, nil
}

// Replace implements [Store].
func (m *MemoryStore) Replace(ctx context.Context, req ReplaceRequest) (ReplaceReply, error) {
	if err := ctx.Err(); err != nil {
		return ReplaceReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin(req.Key)
	next, status := claimed(req.Record, now), ReplaceRestored
	if old := m.records[req.Key]; old != nil {
		ours := old.Owner.Token == req.Record.Owner.Token
		switch {
		case ours && old.settled() && old.Resolved == nil && old.Until.After(now):
			return ReplaceReply{Status: ReplaceSettled}, nil
		case ours && old.Status != StatusReleased && old.Resolved == nil:
			next, status = old.Record, ReplaceStored
		case ours, old.Status == StatusReleased && old.Resolved != nil, !old.vacant(now) && !old.asks(req.Record.Owner.Token):
			return ReplaceReply{Status: ReplaceStale}, nil
		default:
			next.Fence, next.Attempt = max(old.Fence, next.Fence), max(old.Attempt, next.Attempt)
		}
	}
	next.Version, next.Status, next.Dispatch = SchemaVersion, StatusCompleted, nil
	if req.Failed {
		next.Status = StatusFailed
	}
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
	now := m.begin(req.Key)
	next, released := claimed(req.Record, now), false
	if old := m.records[req.Key]; old != nil {
		switch {
		case old.asks(req.Record.Owner.Token):
			next.Fence, next.Attempt, released = max(old.Fence, next.Fence), max(old.Attempt, next.Attempt), true
		case old.Owner.Token != req.Record.Owner.Token || old.settled():
			return ReleaseReply{}, nil
		case old.Status == StatusReleased:
			return ReleaseReply{Released: true}, nil
		case old.evidence():
			m.holdAgain(req.Key, old.Record, now, old.expires)
			return ReleaseReply{Released: true, Held: true}, nil
		default:
			next, released = old.Record, true
		}
	}
	next.Version, next.Status, next.Dispatch = SchemaVersion, StatusReleased, nil
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
	now := m.begin(req.Key)
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
	now := m.begin(req.Key)
	rec := m.records[req.Key]
	if rec == nil {
		return EraseReply{Erased: true}, nil
	}
	switch alive := rec.Until.After(now); {
	case alive && rec.Status == StatusPending, alive && rec.Status == StatusHeld, rec.Status == StatusPending && rec.Dispatch != nil:
		return EraseReply{Record: rec.Record.copy(), Left: left(rec.Until, now)}, nil
	case alive && rec.Status == StatusReleased:
		return EraseReply{Erased: true}, nil
	}
	gone := Record{
		Version: SchemaVersion, Status: StatusReleased, Owner: Owner{Token: rec.Owner.Token},
		Fence: rec.Fence, Attempt: rec.Attempt, Created: now, Until: now.Add(req.Lease), Updated: now,
	}
	m.put(req.Key, gone, gone.Until)
	return EraseReply{Erased: true}, nil
}

// claimed is the record as its owner last saw it. One that never learned of its
// reservation knows no fence, attempt or creation.
func claimed(rec Record, now time.Time) Record {
	if rec.Created.IsZero() {
		rec.Fence, rec.Attempt, rec.Created = now.UnixMicro(), 1, now
	}
	return rec
}

func left(until, now time.Time) time.Duration { return max(until.Sub(now), 0) }

// purgesPerCall bounds how many expired records one call drops, so that none pays
// for all: the store shrinks faster than it grows.
const purgesPerCall = 10

// begin reads the clock, drops the record of the key if its time has come, and a
// few others.
func (m *MemoryStore) begin(key Key) time.Time {
	now := time.Now()
	if rec := m.records[key]; rec != nil && !rec.expires.After(now) {
		m.drop(rec)
	}
	for range purgesPerCall {
		if len(m.expiry) == 0 || m.expiry[0].expires.After(now) {
			break
		}
		m.drop(m.expiry[0])
	}
	return now
}

func (m *MemoryStore) drop(rec *memoryRecord) {
	delete(m.records, rec.key)
	heap.Remove(&m.expiry, rec.index)
}

// hold writes a reservation whose lease runs from now, and never ends earlier than
// it did. It is kept for one of the two lifetimes.
func (m *MemoryStore) hold(key Key, rec *Record, now time.Time, life, dispatchedLife, lease time.Duration) {
	if until := now.Add(lease); until.After(rec.Until) {
		rec.Until = until
	}
	if rec.Dispatch != nil {
		life = dispatchedLife
	}
	rec.Updated = now
	m.put(key, *rec, rec.Until.Add(life-lease))
}

func (m *MemoryStore) put(key Key, rec Record, expires time.Time) {
	if rec.Status != StatusPending {
		rec.Kept = nil // it is kept no more
	}
	if old := m.records[key]; old != nil {
		old.Record, old.expires = rec.copy(), expires
		heap.Fix(&m.expiry, old.index)
		return
	}
	if m.records == nil {
		m.records = make(map[Key]*memoryRecord)
	}
	added := &memoryRecord{Record: rec.copy(), key: key, expires: expires}
	m.records[key] = added
	heap.Push(&m.expiry, added)
}
