package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// How a call leaves its key when its action has ended, or its recovery hook.

// settlement is what is to be written.
type settlement struct {
	how    way
	data   []byte        // of a result or an error
	reason string        // of a hold
	length time.Duration // of a reservation that is kept

	dispatched bool // nobody runs over the record, and it can wait to be written
}

type way int

const (
	wayRelease way = iota
	wayResult
	wayError
	wayHold
	wayKeep
)

// settle decides how to leave the key, and does it. What the store answers does not
// reach the caller: the effect has happened, or its failure is the caller's news. The lease is renewed
// until a result is encoded, which may take its time, and no longer: no renewal lands
// on top of what is written.
func (c *call) settle(ctx context.Context, held *heldLease, actionErr error) {
	if c.off {
		return // nothing was asked of the store
	}
	// What is decided stands also when the code of a user exits the goroutine.
	var s settlement
	defer func() {
		held.stop()
		c.leaveForSure(ctx, held, s)
	}()
	var obeys bool
	s.dispatched, obeys = held.closeDispatch()
	switch {
	case c.recovering && c.nothing:
		s.how = wayRelease // the store makes a hold of it, if the evidence is still there
	case c.recovering:
		s.how, s.reason = wayHold, ReasonCannotTell
	case actionErr == nil:
		s.withoutResult(ReasonUnstored)
		if data, ok := c.encoded(ctx, c.encode); ok {
			s.how, s.data = wayResult, data
		}
	case actionErr == ErrActionUnwound: //nolint:errorlint // a user's error that wraps it is the user's
		s.withoutResult(ReasonUnwound)
	default:
		s.withoutResult(ReasonDispatched)
		c.failure(ctx, &s, actionErr, obeys)
	}
}

// withoutResult leaves the key free, unless the effect may have happened.
func (s *settlement) withoutResult(reason string) {
	s.how, s.reason = wayRelease, reason
	if s.dispatched {
		s.how = wayHold
	}
}

// failure decides about an error of the action, which obeys if it was only ever told to
// let nothing out.
func (c *call) failure(ctx context.Context, s *settlement, actionErr error, obeys bool) {
	if length, later := c.later(actionErr); later {
		s.how, s.length = wayKeep, length
		return
	}
	switch c.disposition(actionErr, s.dispatched) {
	case Release:
		s.how = wayRelease
	case Hold:
		s.how, s.reason = wayHold, ReasonPolicy
	case Remember:
		s.withoutResult(ReasonUnstored)
		encode := func() ([]byte, error) { return c.op.sealError(c.key, actionErr) }
		if data, ok := c.encoded(ctx, encode); ok {
			s.how, s.data = wayError, data
		}
	case Undecided:
		if obeys && errors.Is(actionErr, ErrNotDispatched) {
			s.how = wayRelease
		}
	}
}

// disposition asks the failure policy. One that panics knows nothing.
func (c *call) disposition(actionErr error, dispatched bool) (d Disposition) {
	if c.op.onFailure == nil {
		return Undecided
	}
	defer contain()
	return c.op.onFailure(actionErr, dispatched)
}

// later reports whether the operation says that the error means a later completion.
func (c *call) later(actionErr error) (length time.Duration, later bool) {
	if c.op.keepReserved == nil {
		return 0, false
	}
	defer contain()
	return c.op.keepReserved(actionErr)
}

// encoded returns the bytes of a result or an error, or tells why they cannot be
// stored.
func (c *call) encoded(ctx context.Context, encode func() ([]byte, error)) (data []byte, ok bool) {
	err, reason := ErrActionUnwound, ReasonEncoding // stand when the encoding exits the goroutine
	defer func() {
		if err != nil {
			c.obs.event(ctx, Event{Kind: EventUnstored, Reason: reason, Err: err})
		}
	}()
	err = safely(func() (err error) {
		data, err = encode()
		return err
	})
	if err == nil && len(data) > c.op.maxResult {
		err, reason = fmt.Errorf("result of %d bytes: over the limit of %d", len(data), c.op.maxResult), ReasonTooLarge
	}
	return data, err == nil
}

// leave writes what was decided. What the store does not take is tried again behind
// the caller, if it matters that it is written.
func (c *call) leave(ctx context.Context, held *heldLease, s settlement) {
	if s.how == wayKeep {
		c.keep(ctx, held, s.length)
		return
	}
	err := c.write(ctx, s)
	switch {
	case err == nil:
	case held != nil && (s.how != wayRelease || s.dispatched):
		c.writeBehind(ctx, s)
	default:
		c.notWritten(ctx, s, err)
	}
}

// leaveForSure writes what was decided also when an observer exits the goroutine in the midst of
// it: then once more, without the observer. What has been written already is written again.
func (c *call) leaveForSure(ctx context.Context, held *heldLease, s settlement) {
	left := false
	defer func() {
		if !left {
			obs := c.obs
			defer func() { c.obs = obs }()
			c.obs = observed{noop{}}
			c.leave(ctx, held, s)
		}
	}()
	c.leave(ctx, held, s)
	left = true
}

// write asks the store once, and tells what it answered. It returns the store's
// error.
func (c *call) write(ctx context.Context, s settlement) error {
	switch s.how {
	case wayResult, wayError:
		reply, err := c.replace(ctx, s.data, s.how == wayError)
		if err == nil {
			c.replaced(ctx, reply, s)
		}
		return err
	case wayHold:
		return c.keepHeld(ctx, s.reason)
	case wayRelease, wayKeep:
	}
	if c.op.onInFlight == Run && !c.completes {
		return nil // the mode never takes a key
	}
	return c.release(ctx)
}

// replaced tells what became of the result.
func (c *call) replaced(ctx context.Context, reply ReplaceReply, s settlement) {
	switch {
	case reply.Status == ReplaceSettled:
		c.settled = true
		if !c.behind && !c.completes && !c.takeFirst(ctx, s) {
			c.tellStale(ctx)
		}
	case reply.Status != ReplaceStale:
	case c.op.onInFlight == Run && !c.completes:
		c.takeEarlier(ctx)
	case c.own.Fence == 0 && c.request.Unreadable != nil:
		// What is in the way is the result that could not be decoded.
	case c.recovered:
		// What is in the way is the word of the owner that this call asked about.
	default:
		c.tellStale(ctx)
	}
}

func (c *call) tellStale(ctx context.Context) {
	c.stale = true
	c.obs.event(ctx, Event{Kind: EventStale, Record: &c.own})
}

func (c *call) notWritten(ctx context.Context, s settlement, err error) {
	if s.how != wayRelease {
		c.obs.event(ctx, Event{Kind: EventUnstored, Reason: ReasonStorage, Err: err})
	}
}

// writeBehind goes on trying to write what the store did not take, until the lease
// runs out: then somebody else may run. Nobody runs over a dispatched record, so that is
// tried for longer. The caller has its result and does not wait for that; Drain does.
func (c *call) writeBehind(ctx context.Context, s settlement) {
	behind := *c // the caller reads its own
	behind.behind = true
	until := behind.leaseEnd
	if s.dispatched {
		until = time.Now().Add(c.op.patience())
	}
	c.op.guard.calls.more()
	go func() {
		defer c.op.guard.calls.leave()
		if !c.again(until, func() error { return behind.write(ctx, s) }) {
			behind.notWritten(ctx, s, errNotTaken)
		}
	}()
}

// giveBackBehind goes on trying to release a dispatched reservation that has never run:
// what the store keeps of it would be held. Only so many of a guard do so at once, and
// Drain does not wait for them: while a store is down every call leaves one.
func (c *call) giveBackBehind(ctx context.Context) {
	behind, ghosts := *c, &c.op.guard.ghosts
	if ghosts.Add(1) > maxGhosts {
		ghosts.Add(-1)
		return
	}
	go func() {
		defer ghosts.Add(-1)
		c.again(time.Now().Add(c.op.patience()), func() error {
			select {
			case <-c.op.guard.calls.draining:
				return nil // the process ends, and so does the store's client
			default:
				return behind.release(ctx)
			}
		})
	}()
}

// maxGhosts bounds the goroutines of a guard that give back what has never run.
const maxGhosts = 256

// again tries until it succeeds or the time has come, with growing pauses.
func (c *call) again(until time.Time, try func() error) bool {
	pause := c.op.storeTimeout / writeTries
	for !time.Now().Add(pause).After(until) {
		<-time.After(pause)
		pause = min(2*pause, c.op.storeTimeout)
		if try() == nil {
			return true
		}
	}
	return false
}

// patience is how long the end of a dispatched run is tried to be written: what is not
// written costs a person's time.
func (s *settings) patience() time.Duration {
	return max(s.lease, min(patientLeases*s.lease, maxPatience))
}

const (
	// writeTries is how often the first pause between two tries goes into the store's
	// time limit.
	writeTries    = 16
	patientLeases = 10
	maxPatience   = 10 * time.Minute
)

var errNotTaken = errors.New("onceguard: the store did not take it in time")

// keep leaves the key reserved for a later completion, by one last renewal. That the
// action has left it is its word that something is out. Nothing
// is released even if that fails: the completion is still to come.
func (c *call) keep(ctx context.Context, held *heldLease, length time.Duration) {
	if c.op.onInFlight == Run {
		c.kept = true // of nothing: the mode reserves nothing
		return
	}
	as := mark{dispatched: c.op.protects(), kept: c.request.Turn}
	if as.kept == nil {
		as.kept = &Turn{Job: c.own.Owner.Token} // a job of its own
	}
	reply, err := c.renew(ctx, c.own, min(max(length, c.op.lease), maxRetention), c.op.storeTimeout, as)
	switch {
	case err == nil && reply.Status != RenewLost:
		c.kept = true
	case held != nil:
		c.kept = true
		if err == nil && !held.completed.Load() {
			if _, ok := c.completedAlready(ctx); !ok {
				held.report(ctx, ReasonTaken)
			}
		}
	}
}

// completedAlready reports whether the key is not ours any more because the run was
// completed before its action had left it.
func (c *call) completedAlready(ctx context.Context) (Record, bool) {
	loaded, err := c.loadAfter(ctx)
	rec := loaded.Record
	return rec, err == nil && loaded.Found && rec.Owner.Token == c.request.Owner.Token && rec.Resolved == nil &&
		(rec.settled() && loaded.Left > 0 || rec.Status == StatusReleased)
}

// takeFirst gives the caller the result that the run has been completed with before, which
// counts, since others may have it. It says false if the caller has another answer than they. It is
// the same when the reply of an earlier try to store it was lost: that is what is taken for granted
// when the store does not say.
func (c *call) takeFirst(ctx context.Context, s settlement) bool {
	loaded, err := c.loadAfter(ctx)
	rec := loaded.Record
	failed := s.how == wayError
	switch {
	case err != nil:
		return true
	case !loaded.Found || rec.Owner.Token != c.own.Owner.Token:
		return false
	case failed == (rec.Status == StatusFailed) && bytes.Equal(rec.Result, s.data):
		return true
	case failed:
		return false
	}
	c.take(rec)
	return !c.executedAt.IsZero()
}
