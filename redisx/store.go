package redisx

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
)

// DefaultPrefix begins the keys of a store whose options name no other.
const DefaultPrefix = "onceguard"

// Options are the settings of a [Store]. The zero value is fit for use.
type Options struct {
	// Prefix begins every key, followed by a colon; [DefaultPrefix] when empty.
	// Stores with different prefixes share nothing. At most 128 bytes of UTF-8
	// without control characters. A hash tag such as "{pay}" is allowed and puts
	// all keys of a cluster on one node.
	Prefix string
}

// Store keeps records in Redis. It is made by [New] and its methods are safe for
// use by many goroutines at once. Their errors are a [guard.ClassifiedError] that
// unwraps to what go-redis reported.
type Store struct {
	rdb     redis.UniversalClient
	prefix  string
	inline  bool          // the client itself keeps to the context's deadline
	timeout time.Duration // of a call whose context has no deadline
	scripts scripts
}

var (
	_ guard.Store    = (*Store)(nil)
	_ guard.Eraser   = (*Store)(nil)
	_ guard.Holder   = (*Store)(nil)
	_ guard.Resolver = (*Store)(nil)
	_ guard.Lister   = (*Store)(nil)
)

// New makes a store on a client of go-redis. The client stays the caller's: to
// configure (set ContextTimeoutEnabled, see the package comment), to share and
// to close, after the guard has drained. A Ring is refused: it moves the keys of a shard
// that is down to another one, where they are free. New does not speak to the server.
//
// The error joins every fault of the arguments.
func New(rdb redis.UniversalClient, options Options) (*Store, error) {
	if options.Prefix == "" {
		options.Prefix = DefaultPrefix
	}
	var faults []error
	if v := reflect.ValueOf(rdb); rdb == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		faults = append(faults, errors.New("client is nil"))
	}
	if _, ok := rdb.(*redis.Ring); ok {
		faults = append(faults, errors.New("client is a Ring, which moves the keys of a shard that is down to another one, "+
			"where they are free: use a Cluster, a Sentinel or a single server"))
	}
	if err := validatePrefix(options.Prefix); err != nil {
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("onceguard: redisx.New: %w", err)
	}
	return &Store{
		rdb: rdb, prefix: options.Prefix, inline: keepsDeadlines(rdb),
		timeout: DefaultTimeout, scripts: newScripts(),
	}, nil
}

// keepsDeadlines says whether the client never outlasts a context's deadline.
// Cluster clients ask the server for its commands on a context of
// their own.
func keepsDeadlines(rdb redis.UniversalClient) bool {
	client, ok := rdb.(*redis.Client)
	return ok && client.Options().ContextTimeoutEnabled
}

// StoreName is "redis".
func (s *Store) StoreName() string { return "redis" }

// Reserve is part of [guard.Store].
func (s *Store) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	var seen guard.Seen
	if req.Unreadable != nil {
		seen = *req.Unreadable
	}
	var settle any = "" // a constant in an any costs nothing
	if req.Recovers {
		settle = inMicroseconds(req.Settle)
	}
	var job, turn any = "", ""
	if req.Turn != nil {
		if err := exact(req.Turn.Number); err != nil {
			return guard.ReserveReply{}, failure(guard.PhaseReserve, err)
		}
		job, turn = escape(req.Turn.Job, ""), req.Turn.Number
	}
	answer, err := s.run(ctx, guard.PhaseReserve, s.scripts.reserve, req.Key,
		escape(req.Owner.Token, ""), ownDetails(req.Owner, req.Fingerprint),
		inMicroseconds(req.Lease), pendingLife(req.Lease, req.Retention),
		escape(seen.OwnerToken, ""), seen.Fence,
		dispatchedLife(req.Lease, req.Retention, req.HoldRetention), flag(req.Dispatched), settle, job, turn)
	if err != nil {
		return guard.ReserveReply{}, err
	}
	rec, left, err := answer.record()
	if err != nil {
		return guard.ReserveReply{}, failure(guard.PhaseReserve, err)
	}
	acquired, err := answer.integer(0)
	if err == nil && acquired == 1 && rec.Status != guard.StatusPending {
		err = fmt.Errorf("%w: acquired a record that is %s", errReply, rec.Status)
	}
	if err != nil {
		return guard.ReserveReply{}, failure(guard.PhaseReserve, err)
	}
	return guard.ReserveReply{Acquired: acquired == 1, Record: rec, Left: left, Held: acquired == 2}, nil
}

// Renew is part of [guard.Store].
func (s *Store) Renew(ctx context.Context, req guard.RenewRequest) (guard.RenewReply, error) {
	claim, err := claimOf(req.Record)
	if err == nil && req.Keep != nil {
		err = exact(req.Keep.Number)
	}
	if err != nil {
		return guard.RenewReply{}, failure(guard.PhaseRenew, err)
	}
	answer, err := s.run(ctx, guard.PhaseRenew, s.scripts.renew, req.Key,
		append(claim, epoch(req.Record.Until), inMicroseconds(req.Lease), pendingLife(req.Lease, req.Retention),
			dispatchedLife(req.Lease, req.Retention, req.HoldRetention), flag(req.Dispatched), flag(req.NothingFound), keptDetails(req.Keep))...)
	if err != nil {
		return guard.RenewReply{}, err
	}
	status, err := answer.word(0, string(guard.RenewOK), string(guard.RenewRestored), string(guard.RenewLost))
	if err != nil {
		return guard.RenewReply{}, failure(guard.PhaseRenew, err)
	}
	until, err := answer.integer(1)
	if err != nil {
		return guard.RenewReply{}, failure(guard.PhaseRenew, err)
	}
	if guard.RenewStatus(status) == guard.RenewLost {
		return guard.RenewReply{Status: guard.RenewLost}, nil
	}
	return guard.RenewReply{Status: guard.RenewStatus(status), Until: time.UnixMicro(until).UTC()}, nil
}

// Replace is part of [guard.Store].
func (s *Store) Replace(ctx context.Context, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	claim, err := claimOf(req.Record)
	if err != nil {
		return guard.ReplaceReply{}, failure(guard.PhaseReplace, err)
	}
	answer, err := s.run(ctx, guard.PhaseReplace, s.scripts.replace, req.Key,
		append(claim, inMicroseconds(req.Retention), completedLife(req.Lease, req.Retention),
			escape(req.Encoding, ""), s.bytes(req.Result), flag(req.Failed))...)
	if err != nil {
		return guard.ReplaceReply{}, err
	}
	status, err := answer.word(0, string(guard.ReplaceStored), string(guard.ReplaceRestored), string(guard.ReplaceSettled), string(guard.ReplaceStale))
	if err != nil {
		return guard.ReplaceReply{}, failure(guard.PhaseReplace, err)
	}
	return guard.ReplaceReply{Status: guard.ReplaceStatus(status)}, nil
}

// Release is part of [guard.Store].
func (s *Store) Release(ctx context.Context, req guard.ReleaseRequest) (guard.ReleaseReply, error) {
	claim, err := claimOf(req.Record)
	if err != nil {
		return guard.ReleaseReply{}, failure(guard.PhaseRelease, err)
	}
	answer, err := s.run(ctx, guard.PhaseRelease, s.scripts.release, req.Key,
		append(claim, inMicroseconds(req.Lease), inMilliseconds(req.Lease))...)
	if err != nil {
		return guard.ReleaseReply{}, err
	}
	released, err := answer.integer(0)
	if err != nil {
		return guard.ReleaseReply{}, failure(guard.PhaseRelease, err)
	}
	return guard.ReleaseReply{Released: released > 0, Held: released == 2}, nil
}

// Load is part of [guard.Store].
func (s *Store) Load(ctx context.Context, req guard.LoadRequest) (guard.LoadReply, error) {
	answer, err := s.run(ctx, guard.PhaseLoad, s.scripts.load, req.Key)
	if err != nil {
		return guard.LoadReply{}, err
	}
	found, err := answer.integer(0)
	if err != nil {
		return guard.LoadReply{}, failure(guard.PhaseLoad, err)
	}
	if found == 0 {
		return guard.LoadReply{}, nil
	}
	rec, left, err := answer.record()
	if err != nil {
		return guard.LoadReply{}, failure(guard.PhaseLoad, err)
	}
	return guard.LoadReply{Found: true, Record: rec, Left: left}, nil
}

// Erase is part of [guard.Eraser].
func (s *Store) Erase(ctx context.Context, req guard.EraseRequest) (guard.EraseReply, error) {
	answer, err := s.run(ctx, guard.PhaseErase, s.scripts.erase, req.Key,
		inMicroseconds(req.Lease), inMilliseconds(req.Lease))
	if err != nil {
		return guard.EraseReply{}, err
	}
	erased, err := answer.integer(0)
	if err != nil {
		return guard.EraseReply{}, failure(guard.PhaseErase, err)
	}
	if erased == 1 {
		return guard.EraseReply{Erased: true}, nil
	}
	rec, left, err := answer.record()
	if err != nil {
		return guard.EraseReply{}, failure(guard.PhaseErase, err)
	}
	return guard.EraseReply{Record: rec, Left: left}, nil
}
