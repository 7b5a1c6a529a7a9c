package guard

import (
	"context"
	"time"
)

// Abilities are what a [Store] may be able to do beside the protocol. They are
// found by type assertion; an operation that needs one that its store lacks is an
// error from [NewOperation].

// Notifier is an ability that a [Store] may have: it wakes those who wait for a
// key. Calls wait by polling without it, and beside it: a notice may be lost, and
// one may come for nothing.
type Notifier interface {
	// Watch tells on the channel, from its return on and until stop is called, that
	// the key was replaced or released. Notices that come faster than they are read
	// become one. The store sends them as part of its writes, and a notice that
	// cannot be sent never fails the write. A store that can give no more notice
	// closes the channel. Stop may be called more than once.
	Watch(ctx context.Context, req WatchRequest) (changed <-chan struct{}, stop func(), err error)
}

// WatchRequest names the key to watch.
type WatchRequest struct {
	Key Key
}

// Eraser is an ability that a [Store] may have: it forgets a key for good.
// [Operation.Erase] needs it.
type Eraser interface {
	// Erase forgets the result, unless the record is a reservation whose lease runs or that was
	// dispatched, a held one, or one that cannot be read. What stays for a lease is a tombstone
	// with the owner's token and the fence alone, so that a late write of that owner does not bring
	// the result back. A tombstone that is there already stays as it is.
	Erase(ctx context.Context, req EraseRequest) (EraseReply, error)
}

// EraseRequest names the record to forget.
type EraseRequest struct {
	Key   Key
	Lease time.Duration // how long the tombstone lives
}

// EraseReply says whether the key is without a result now, and else what is in
// the way.
type EraseReply struct {
	Erased bool
	Record Record        // in the way when not Erased
	Left   time.Duration // of it, as in [LoadReply]
}

// Holder is an ability that a [Store] may have: it keeps outcomes that nobody knows,
// and errors that are remembered. [AtMostOnce], [WithRecovery], [MarkDispatch] and
// [OnFailure] need it. Such a store also does the following.
//
// Reserve: a reservation that was dispatched, whose lease has run out, is not free.
// A caller that recovers takes it over, once its time to settle is over (counted
// from Record.Updated), and gets its evidence: Record.Dispatch, and the fingerprint
// of the record, also if that has none. To any other caller the record becomes held in the
// same step, its owner, fence and Updated as they were, for as long as its owner
// wanted it kept. A held record is the same to both until its time is over; then it
// is free. Who comes with another fingerprint than a dispatched or held record has
// finds it and changes nothing.
//
// Renew: sets the mark and clears evidence as asked, in the same step as the lease. The mark is
// never cleared by a renewal without NothingFound, and evidence of one's own not even by that. With
// the evidence of another owner its fingerprint goes too: that of the request's record takes its
// place. A held record is lost to it, also to its owner. A record that is put back has the evidence
// that its owner last saw.
//
// Replace: clears the evidence. It never takes another owner's expired reservation that was
// dispatched, with one exception: while another's reservation, live or not, or held record carries
// the caller's own evidence, its action has not run again, and the caller's word settles it as if
// it were missing. So does its release, which then has released.
//
// Release: clears the caller's own evidence. A reservation that carries another
// owner's becomes held again instead, as by Hold.
type Holder interface {
	// Hold makes the caller's own reservation held, for Retention from now. One that carries the
	// evidence of another owner goes back to that one: its token, label and trace are the record's
	// owner again, it was created when that one dispatched and took over from nobody, its fence
	// stays. Without evidence the caller's own is added. A record that is missing is put in place
	// (with another owner's evidence only before the lease end that the caller last saw: somebody
	// may have settled it since), and so is one that is another owner's tombstone or has run out
	// without having been dispatched, unless the request carries another owner's evidence or
	// somebody has resolved it. Own results, own tombstones and what is another's stay as they are:
	// refused. To hold again is to hold, and said to be again.
	Hold(ctx context.Context, req HoldRequest) (HoldReply, error)
}

// HoldRequest holds a key.
type HoldRequest struct {
	Key       Key
	Record    Record // the reservation as the owner last saw it
	Lease     time.Duration
	Retention time.Duration // of the held record, at least a lease
}

// HoldStatus is the answer to a hold.
type HoldStatus string

const (
	// HoldHeld means that the caller's own record is held.
	HoldHeld HoldStatus = "held"
	// HoldAgain means that the record was held already, by the caller or by whoever it
	// asked about.
	HoldAgain HoldStatus = "again"
	// HoldRestored means that the record is held although the caller's reservation
	// was gone.
	HoldRestored HoldStatus = "restored"
	// HoldRefused means that the record is not the caller's to hold.
	HoldRefused HoldStatus = "refused"
)

// HoldReply says how a hold went.
type HoldReply struct {
	Status HoldStatus
}

// Resolver is an ability that a [Store] may have: an operator settles a record in its
// owner's stead. [Operation.Resolve] needs it.
type Resolver interface {
	// Resolve settles a held record or a reservation, if its fence is still the one
	// that was seen, and refuses all else. A reservation whose lease runs is settled
	// only with Live. The record gets a new fence and Resolved; its evidence is
	// cleared. As completed or failed it is nobody's any more: a replace of its owner
	// is stale. As released it is its owner's tombstone, and no result of an earlier owner
	// takes its place. A repeat with the same Resolver.Token and As is the same resolution.
	Resolve(ctx context.Context, req ResolveRequest) (ResolveReply, error)
}

// ResolveRequest settles a record.
type ResolveRequest struct {
	Key       Key
	Fence     int64  // of the record that was seen
	Resolver  Owner  // who settles it, with a token of its own
	As        Status // completed, failed or released
	Encoding  string
	Result    []byte
	Live      bool          // also while the owner's lease runs
	Lease     time.Duration // how long a tombstone lives; all others at least
	Retention time.Duration // of the result or error
}

// ResolveReply says whether the record was settled, and what it is now.
type ResolveReply struct {
	Resolved bool
	Found    bool   // there is a record
	Record   Record // if Found
	Left     time.Duration
}

// Lister is an ability that a [Store] may have: it shows the keys that are in use.
// [Guard.List] needs it.
type Lister interface {
	// List returns a page of the reservations, the held records and those that cannot
	// be read, in no order. A record that is there from the first page to the last
	// is listed, perhaps more than once. It never blocks the store for long.
	List(ctx context.Context, req ListRequest) (ListReply, error)
}

// ListRequest asks for a page.
type ListRequest struct {
	Operation string // only this one; all when empty
	Cursor    string // of the page before, empty for the first
	Limit     int    // about how many records to look at, at least 1
}

// ListReply is a page. It may be empty although more follow.
type ListReply struct {
	Records []Listed
	Cursor  string // for the next page, empty after the last
}

// Listed is a record of a list.
type Listed struct {
	Key    Key
	Record Record
	Left   time.Duration // as in [LoadReply]
	Now    time.Time     // of the store's clock
}
