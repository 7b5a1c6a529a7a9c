package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// freeTo reports whether a reserve of another owner may take the record, and
// whether it makes it held instead.
func (r *memoryRecord) freeTo(req ReserveRequest, now time.Time) (free, flip bool) {
	over := !r.Until.After(now) || r.Status == StatusPending && r.Kept.before(req.Turn)
	switch {
	case r.Status == StatusReleased:
		return r.Owner.Token != req.Owner.Token, false
	case r.Owner.Token == req.Owner.Token:
		return false, false
	case r.settled():
		return over || r.is(req.Unreadable), false
	case r.Status == StatusHeld && over, r.Status == StatusPending && over && r.Dispatch == nil:
		return true, false
	case r.Status == StatusPending && !over, req.Fingerprint.differs(r.Fingerprint):
		return false, false
	case req.Recovers && !now.Before(r.Updated.Add(req.Settle)):
		return true, false
	default:
		return false, r.Status == StatusPending
	}
}

// asks reports whether the record is that of an owner who had yet to find out what
// this one did, whose own word settles it.
func (r Record) asks(token string) bool {
	return (r.Status == StatusPending || r.Status == StatusHeld) && r.evidence() && r.Dispatch.Owner.Token == token
}

// vacant reports whether a result or a hold of an owner without a reservation may
// take the place of the record.
func (r *memoryRecord) vacant(now time.Time) bool {
	return r.Status == StatusReleased || !r.Until.After(now) && (r.Status != StatusPending || r.Dispatch == nil)
}

// settled reports whether the record says how it ended.
func (r Record) settled() bool { return r.Status == StatusCompleted || r.Status == StatusFailed }

// is reports whether this is the record that a caller saw and could not decode.
func (r Record) is(seen *Seen) bool {
	return seen != nil && r.settled() && r.Owner.Token == seen.OwnerToken && r.Fence == seen.Fence
}

// evidence reports whether somebody else may have had the effect.
func (r Record) evidence() bool { return r.Dispatch != nil && r.Dispatch.Owner.Token != r.Owner.Token }

// follows makes the record the acquisition after an old one.
func (r *Record) follows(old Record, now time.Time) {
	r.Fence, r.Attempt = max(old.Fence+1, r.Fence), old.Attempt+1
	open := old.Status == StatusPending || old.Status == StatusHeld && old.Until.After(now)
	if !open {
		return
	}
	r.TookOver = &Previous{Owner: old.Owner, Fence: old.Fence}
	if r.Dispatch = old.Dispatch; r.Dispatch != nil {
		r.Fingerprint = old.Fingerprint // it is that run which is in question
	}
}

// dispatch marks the record, unless it is.
func (r *Record) dispatch(now time.Time) {
	if r.Dispatch == nil {
		r.Dispatch = &Dispatch{Owner: r.Owner, Fence: r.Fence, At: now}
	}
}

// isOf reports whether the record belongs to whoever dispatched.
func (r Record) isOf(dispatch *Dispatch) bool {
	return dispatch != nil && r.Owner.Token == dispatch.Owner.Token
}

// Hold implements [Holder].
func (m *MemoryStore) Hold(ctx context.Context, req HoldRequest) (HoldReply, error) {
	if err := ctx.Err(); err != nil {
		return HoldReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin(req.Key)
	next, status := claimed(req.Record, now), HoldRestored
	old := m.records[req.Key]
	if old == nil && req.Record.evidence() && !now.Before(req.Record.Until) {
		return HoldReply{Status: HoldRefused}, nil
	}
	if old != nil {
		ours := old.Owner.Token == req.Record.Owner.Token
		mayBeAnothers := req.Record.evidence() || old.Resolved != nil
		switch {
		case old.Status == StatusHeld && (ours || old.isOf(req.Record.Dispatch)):
			next, status = old.Record, HoldAgain
		case ours && old.Status == StatusPending:
			next, status = old.Record, HoldHeld
		case ours, mayBeAnothers, !old.vacant(now):
			return HoldReply{Status: HoldRefused}, nil
		default:
			next.Fence, next.Attempt = max(old.Fence, next.Fence), max(old.Attempt, next.Attempt)
		}
	}
	next.Version = SchemaVersion
	next.dispatch(now)
	m.holdAgain(req.Key, next, now, now.Add(CompletedLifetime(req.Lease, req.Retention)))
	return HoldReply{Status: status}, nil
}

// holdAgain writes a held record, as that of whoever dispatched it. Of an acquisition
// that is over nothing is known but that.
func (m *MemoryStore) holdAgain(key Key, rec Record, now, until time.Time) {
	if rec.evidence() {
		rec.Created, rec.TookOver = rec.Dispatch.At, nil
	}
	rec.Status, rec.Owner = StatusHeld, rec.Dispatch.Owner
	rec.Until, rec.Updated = until, now
	m.put(key, rec, until)
	m.notify(key)
}

// Resolve implements [Resolver].
func (m *MemoryStore) Resolve(ctx context.Context, req ResolveRequest) (ResolveReply, error) {
	if err := ctx.Err(); err != nil {
		return ResolveReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.begin(req.Key)
	old := m.records[req.Key]
	if old == nil {
		return ResolveReply{}, nil
	}
	again := old.Resolved != nil && old.Resolved.Token == req.Resolver.Token && old.Status == req.As
	live := old.Status == StatusPending && old.Until.After(now)
	open := old.Status == StatusPending || old.Status == StatusHeld
	if again || !open || live && !req.Live || old.Fence != req.Fence {
		return ResolveReply{Resolved: again, Found: true, Record: old.Record.copy(), Left: left(old.Until, now)}, nil
	}
	next, resolver := old.Record, req.Resolver
	next.Version, next.Status, next.Dispatch, next.Resolved, next.Kept = SchemaVersion, req.As, nil, &resolver, nil
	next.Fence = max(old.Fence+1, now.UnixMicro())
	next.Until, next.Updated = now.Add(req.Retention), now
	life := CompletedLifetime(req.Lease, req.Retention)
	if req.As == StatusReleased {
		next.Until, life = now.Add(req.Lease), req.Lease
	} else {
		next.Encoding, next.Result = req.Encoding, req.Result
	}
	m.put(req.Key, next, now.Add(life))
	m.notify(req.Key)
	return ResolveReply{Resolved: true, Found: true, Record: next.copy(), Left: left(next.Until, now)}, nil
}

// List implements [Lister]. Its pages are in the order of the keys.
func (m *MemoryStore) List(ctx context.Context, req ListRequest) (ListReply, error) {
	if err := ctx.Err(); err != nil {
		return ListReply{}, err
	}
	if req.Cursor != "" && !strings.Contains(req.Cursor, "\x00") {
		return ListReply{}, fmt.Errorf("cursor %q: not one that List gave", req.Cursor)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var keys []string
	byName := map[string]*memoryRecord{}
	for key, rec := range m.records {
		name := key.Operation + "\x00" + key.Name // no name has control characters
		open := rec.Status == StatusPending || rec.Status == StatusHeld
		if rec.expires.After(now) && open && name > req.Cursor && (req.Operation == "" || req.Operation == key.Operation) {
			keys, byName[name] = append(keys, name), rec
		}
	}
	slices.SortFunc(keys, strings.Compare)
	var reply ListReply
	if len(keys) > max(req.Limit, 1) {
		keys = keys[:max(req.Limit, 1)]
		reply.Cursor = keys[len(keys)-1]
	}
	for _, name := range keys {
		rec := byName[name]
		reply.Records = append(reply.Records, Listed{Key: rec.key, Record: rec.Record.copy(), Left: left(rec.Until, now), Now: now})
	}
	return reply, nil
}
