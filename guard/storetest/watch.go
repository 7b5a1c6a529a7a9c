package storetest

import (
	"time"

	"github.com/onceguard/onceguard/guard"
)

const (
	noticeWithin = 5 * time.Second        // a notice that has not come by then is lost
	quietFor     = 100 * time.Millisecond // no notice within this counts as none
)

// watchClauses hold for a store that is a [guard.Notifier].
func watchClauses() []clause {
	return []clause{
		{"a result gives notice", func(e *env) {
			rec := e.acquire(newOwner())
			changed, _ := e.watch()
			e.wantReplace(rec, guard.ReplaceStored)
			e.wantNotice(changed)
		}},
		{"a release gives notice", func(e *env) {
			rec := e.acquire(newOwner())
			changed, _ := e.watch()
			e.wantRelease(rec, true)
			e.wantNotice(changed)
		}},
		{"a hold gives notice", func(e *env) {
			rec := e.acquire(newOwner())
			changed, _ := e.watch()
			e.wantHold(rec, guard.HoldHeld)
			e.wantNotice(changed)
		}},
		{"a release into a held record gives notice", func(e *env) {
			e.held()
			rec := e.recover()
			changed, _ := e.watch()
			e.releaseHeld(rec)
			e.wantNotice(changed)
		}},
		{"an error gives notice", func(e *env) {
			rec := e.acquire(newOwner())
			changed, _ := e.watch()
			e.wantFail(rec, guard.ReplaceStored)
			e.wantNotice(changed)
		}},
		{"who settles a record gives notice", func(e *env) {
			e.eachSettlement(func(at *env, as guard.Status) {
				held := at.held()
				changed, _ := at.watch()
				at.isSettled(held, as)
				at.wantNotice(changed)
			})
		}},
		{"everybody who watches gets one", func(e *env) {
			rec := e.acquire(newOwner())
			first, _ := e.watch()
			second, _ := e.watch()
			e.wantReplace(rec, guard.ReplaceStored)
			e.wantNotice(first)
			e.wantNotice(second)
		}},
		{"another key gives none", func(e *env) {
			changed, _ := e.watch()
			other := e.at(newKey())
			other.wantReplace(other.acquire(newOwner()), guard.ReplaceStored)
			e.wantQuiet(changed)
		}},
		{"after stop there is none, and stop may be called twice", func(e *env) {
			rec := e.acquire(newOwner())
			changed, stop := e.watch()
			stop()
			stop()
			e.wantReplace(rec, guard.ReplaceStored)
			e.wantQuiet(changed)
		}},
		{"notices that are not read do not hold up a write", func(e *env) {
			e.watch()
			for range 10 {
				e.wantRelease(e.acquire(newOwner()), true)
			}
		}},
	}
}

func (e *env) watch() (<-chan struct{}, func()) {
	e.Helper()
	notifier, ok := e.store.(guard.Notifier)
	if !ok {
		e.Skip("the store gives no notice")
	}
	changed, stop, err := notifier.Watch(e.ctx(), guard.WatchRequest{Key: e.key})
	e.check("watch", err)
	e.Cleanup(stop)
	return changed, stop
}

func (e *env) wantNotice(changed <-chan struct{}) {
	e.Helper()
	select {
	case <-changed:
	case <-time.After(noticeWithin):
		e.Errorf("no notice within %s", noticeWithin)
	}
}

func (e *env) wantQuiet(changed <-chan struct{}) {
	e.Helper()
	select {
	case <-changed:
		e.Error("a notice came for nothing")
	case <-time.After(quietFor):
	}
}
