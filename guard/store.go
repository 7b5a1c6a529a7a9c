package guard

import (
	"context"
	"time"
)

// SchemaVersion is the version of the record layout that stores write. They read
// the versions before it too; a record of a later one has [StatusUnknown]: it is in
// flight, never read as a result and never taken over.
const SchemaVersion = 1

// Key names one instance of one operation. A store keeps one record per Key,
// and two different keys never share a record.
type Key struct {
	Operation string // the kind of effect, such as "payment.charge"
	Name      string // the instance of it, such as "order-4711"
}

// Owner is one acquisition of a key: not a process and not a worker. A caller
// that acquires the same key twice is two owners.
type Owner struct {
	Token       string // 128 random bits in hexadecimal, new for every call
	Label       string // for people: host, process, worker identity
	TraceParent string // W3C trace context of the owning call, empty without a trace
}

// Status says what a record stands for.
type Status string

const (
	// StatusPending is a reservation: an owner runs the action, or died trying.
	StatusPending Status = "pending"
	// StatusCompleted holds a result.
	StatusCompleted Status = "completed"
	// StatusFailed holds an error that is remembered: see [Remember].
	StatusFailed Status = "failed"
	// StatusHeld means that the effect may have happened and nobody knows. The
	// record still is its dispatcher's, who may settle it, and blocks the key
	// to all who cannot find out.
	StatusHeld Status = "held"
	// StatusReleased is a tombstone. The key is free to every owner but the one
	// that released it, so a delayed write of that owner cannot bring it back.
	StatusReleased Status = "released"
	// StatusUnknown is a record that this version cannot read. It counts as in
	// flight.
	StatusUnknown Status = "unknown"
)

// Fingerprint is a digest of a call's input. Two fingerprints are compared only
// when both are present and have the same algorithm.
type Fingerprint struct {
	Algorithm string // such as "sha256-json", empty when there is no fingerprint
	Digest    string // hexadecimal
}

// Previous tells whose reservation an owner took over.
type Previous struct {
	Owner Owner
	Fence int64
}

// Dispatch is the evidence that an effect may have happened: who may have let it
// out into the world, and since when. It goes from a record to that of whoever takes
// over, and is cleared only by a result, by word that nothing happened
// (RenewRequest.NothingFound), by its own owner's release, or by [Resolver].
type Dispatch struct {
	Owner Owner
	Fence int64
	At    time.Time
}

// Record is what a store keeps under a key. All times are readings of the
// store's clock: they are never compared with the clock of a caller.
type Record struct {
	Version     int
	Status      Status
	Owner       Owner
	Fence       int64     // grows with every acquisition of the key
	Attempt     int       // 1 for the first acquisition, one more for each later one
	Until       time.Time // pending: end of the lease; completed, failed: of the retention; released: of the tombstone; held: of the hold
	Created     time.Time // when this owner acquired the key
	Updated     time.Time // the last write of its owner: for a completed record the time of the result
	Fingerprint Fingerprint
	TookOver    *Previous // nil unless the reservation was a takeover; results and tombstones keep it
	Dispatch    *Dispatch // of a pending or held record, nil while nothing can have happened
	Resolved    *Owner    // who settled the record in its owner's stead, see [Resolver]; else nil
	Kept        *Turn     // of a reservation that was left to a later completion, see [KeepReserved]; else nil
	Encoding    string    // name of the codec of Result
	Result      []byte    // of a completed record; of a failed one the error
}

// Turn is one try of a job that is tried again under the same key, see [WithTurn].
type Turn struct {
	Job    string // at most 255 bytes without control characters
	Number int64  // grows from one try to the next, at least 0 and under 2^53
}

// before reports whether the turn is an earlier one of the same job.
func (t *Turn) before(next *Turn) bool {
	return t != nil && next != nil && t.Job == next.Job && t.Number < next.Number
}

// Store keeps records and decides, atomically and on its own clock, who owns a
// key. All methods are called by many goroutines at once.
//
// Every method returns within the deadline of its context, even against a
// server that never answers, and returns an error only when the store could not
// be asked or did not say: a refusal is a reply. An error leaves the outcome
// unknown. Errors may carry a class, see [Classify].
//
// The package storetest holds the conformance suite for implementations.
type Store interface {
	// Reserve acquires a free key: one without a record, with another owner's
	// tombstone, or with a record whose time has run out, but never one with the
	// caller's own tombstone or result: that reserve comes late. Taking an expired
	// reservation is a takeover. A repeat with the token of the current
	// reservation is the same acquisition: it replies with the same fence and
	// the same previous owner, and renews the lease. With
	// ReserveRequest.Unreadable, the completed or failed record that is named there is
	// free too, to exactly one caller. With ReserveRequest.Turn, a reservation that an
	// earlier turn of that job has left to a later completion (Record.Kept) is one whose
	// lease has run out.
	//
	// What a store that is a [Holder] does with dispatched and held records is said there.
	Reserve(ctx context.Context, req ReserveRequest) (ReserveReply, error)

	// Renew starts the lease anew if the reservation is still the caller's, even
	// when its lease has run out. It never shortens one: a renewal that comes late
	// must not undo a longer one. A missing record is put back whole while the
	// store's clock is before the lease end that the caller last saw
	// (RenewRequest.Record.Until). Anything else is lost and changes nothing.
	Renew(ctx context.Context, req RenewRequest) (RenewReply, error)

	// Replace stores the result if the record is the caller's own (pending, held, or
	// completed already), is missing, is another owner's tombstone, or has run
	// out without having been dispatched. Otherwise it is stale and changes nothing; so
	// it is when somebody else has settled the record.
	Replace(ctx context.Context, req ReplaceRequest) (ReplaceReply, error)

	// Release turns the caller's own reservation, or own held record, into a tombstone
	// that lives one lease. A missing record becomes one too, so that a reservation or renewal
	// of the same owner that arrives late finds its own tombstone; the reply is then
	// that nothing was released. Anything else stays as it is.
	Release(ctx context.Context, req ReleaseRequest) (ReleaseReply, error)

	// Load reads the record. It never reads from a replica.
	Load(ctx context.Context, req LoadRequest) (LoadReply, error)
}

// ReserveRequest asks for a key.
type ReserveRequest struct {
	Key         Key
	Owner       Owner
	Fingerprint Fingerprint
	Lease       time.Duration
	Retention   time.Duration // how long the record of a dead owner is kept past its lease
	Unreadable  *Seen         // nil, or the completed record that the caller could not decode
	Turn        *Turn         // nil, or which turn of which job the caller is

	// The rest is for a [Holder], and zero for operations that hold nothing.

	Dispatched    bool          // the reservation is dispatched from its first moment on
	Recovers      bool          // the caller can find out what became of a dispatched one
	Settle        time.Duration // with Recovers: not before this long after its owner's last write
	HoldRetention time.Duration // how long a dispatched record is kept, in place of Retention if that is shorter
}

// Seen names a record as its reader saw it, so that it is changed only while it
// is still the same.
type Seen struct {
	OwnerToken string
	Fence      int64
}

// ReserveReply says who has the key.
type ReserveReply struct {
	Acquired bool
	Record   Record        // the record now in the store: the caller's own when Acquired
	Left     time.Duration // time until Record.Until on the store's clock, 0 when past
	Held     bool          // this very reserve found a dispatched reservation expired and made it held
}

// RenewRequest asks for a new lease.
type RenewRequest struct {
	Key       Key
	Record    Record // the reservation as the owner last saw it
	Lease     time.Duration
	Retention time.Duration
	Keep      *Turn // sets Record.Kept, unless nil; what it is, no later renewal clears

	// The rest is for a [Holder].

	Dispatched    bool // mark the record as dispatched, unless it is
	NothingFound  bool // first drop the evidence of an earlier owner: nothing has happened
	HoldRetention time.Duration
}

// RenewStatus is the answer to a renewal.
type RenewStatus string

const (
	// RenewOK means that the lease runs anew.
	RenewOK RenewStatus = "ok"
	// RenewRestored means that the record was missing and has been put back.
	RenewRestored RenewStatus = "restored"
	// RenewLost means that the key is not the caller's any more.
	RenewLost RenewStatus = "lost"
)

// RenewReply says how a renewal went.
type RenewReply struct {
	Status RenewStatus
	Until  time.Time // the new lease end on the store's clock; zero when lost
}

// ReplaceRequest stores a result.
type ReplaceRequest struct {
	Key       Key
	Record    Record // the reservation as the owner last saw it
	Failed    bool   // the result is an error: the record becomes failed. For a [Holder]
	Encoding  string
	Result    []byte
	Lease     time.Duration // the record lives at least this long
	Retention time.Duration
}

// ReplaceStatus is the answer to a replace.
type ReplaceStatus string

const (
	// ReplaceStored means that the caller's own record holds the result.
	ReplaceStored ReplaceStatus = "stored"
	// ReplaceRestored means that the result is stored although the caller's
	// reservation was gone.
	ReplaceRestored ReplaceStatus = "restored"
	// ReplaceSettled means that the caller's own record holds a result or an error already, until its
	// retention ends: nothing was stored, since others may have that. It is no failure: the
	// answer to an earlier replace may have been lost.
	ReplaceSettled ReplaceStatus = "settled"
	// ReplaceStale means that another owner has the key: nothing was stored.
	ReplaceStale ReplaceStatus = "stale"
)

// ReplaceReply says how a replace went.
type ReplaceReply struct {
	Status ReplaceStatus
}

// ReleaseRequest gives a key back.
type ReleaseRequest struct {
	Key    Key
	Record Record // the reservation as the owner last saw it
	Lease  time.Duration
}

// ReleaseReply says whether the key was the caller's to release.
type ReleaseReply struct {
	Released bool
	Held     bool // Released back into a held record, since it is dispatched by another: see [Holder]
}

// LoadRequest reads a record.
type LoadRequest struct {
	Key Key
}

// LoadReply is the record, if there is one.
type LoadReply struct {
	Found  bool
	Record Record
	Left   time.Duration // time until Record.Until on the store's clock, 0 when past
}
