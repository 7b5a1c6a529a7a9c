package storetest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/guard/storetest"
)

// faultEnv names the fault with which the test binary, run by itself once more,
// is to run the suite.
const faultEnv = "ONCEGUARD_STORETEST_FAULT"

// fault is a way to break a store, and the clauses that must notice.
type fault struct {
	name    string
	broken  func(able) guard.Store
	clauses []string
}

// groups matches the groups of the clauses that must notice: the others may wait long
// for what a broken store does not do.
func (f fault) groups() string {
	var names []string
	for _, clause := range f.clauses {
		group, _, _ := strings.Cut(clause, "/")
		names = append(names, regexp.QuoteMeta(strings.ReplaceAll(group, " ", "_")))
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// able is a store with every ability.
type able interface {
	guard.Store
	guard.Notifier
	guard.Eraser
	guard.Holder
	guard.Resolver
	guard.Lister
}

func faults() []fault { return append(protocolFaults(), outcomeFaults()...) }

func protocolFaults() []fault {
	return []fault{
		{"a reserve ignores the live owner", wrap(withReserve(takesLive)), []string{
			"Reserve/a live reservation keeps others out and says whose it is",
			"Reserve/an owner whose reservation was taken over does not acquire it back",
			"Races/of many callers exactly one acquires a free key",
		}},
		{"a reserve looks and then takes", wrap(withReserve(looksThenTakes)), []string{
			"Races/of many callers exactly one acquires a free key",
		}},
		{"a repeat is a new acquisition", wrap(withReserve(forgetsTokens)), []string{
			"Reserve again/a repeat with the same token is the same acquisition",
		}},
		{"a caller that cannot decode a record takes any", wrap(withReserve(healsAny)), []string{
			"Reserve what cannot be decoded/another result than the named one stays",
		}},
		{"a takeover forgets the previous owner", wrap(withReserve(forgetsPrevious)), []string{
			"Reserve/an expired reservation is taken over and names its previous owner",
			"Reserve again/a repeat of a takeover names the same previous owner",
		}},
		{"the fence is a counter that starts over", wrap(withReserve(fenceStartsOver)), []string{
			"Fence/it grows with every acquisition, however fast they come",
			"Reserve/a takeover is a new acquisition with a higher fence and one more attempt",
		}},
		{"turns have no order", wrap(withReserve(takesAnyTurn)), []string{
			"Kept/nobody else takes it",
		}},
		{"a renewal forgets that it is to keep", wrap(withRenew(keepsNothing)), []string{
			"Kept/a reservation that is kept says so and lasts as long as was asked",
			"Kept/a later turn of the same job takes it over at once",
		}},
		{"a renewal never says lost", wrap(withRenew(neverLost)), []string{
			"Renew/after a takeover it is lost and changes nothing",
			"Renew/a tombstone is not brought back by its owner",
		}},
		{"a renewal puts back half a record", wrap(withRenew(restoresHalf)), []string{
			"Renew/a missing record is put back whole before the acknowledged lease end",
		}},
		{"a renewal puts a record back at any time", wrap(withRenew(restoresLate)), []string{
			"Renew/a missing record is lost after the acknowledged lease end",
		}},
		{"a replace takes the key from a live owner", wrap(withReplace(replacesAny)), []string{
			"Replace/another owner's live reservation makes it stale and stays",
			"Replace/another owner's live result makes it stale and stays",
		}},
		{"a replace trims the result", wrap(withReplace(trims)), []string{
			"Records/a result comes back byte for byte",
		}},
		{"a release of a missing record leaves no tombstone", wrap(withRelease(noTombstone)), []string{
			"Release/a missing record becomes a tombstone that a delayed reserve finds",
			"Release/a missing record becomes a tombstone that a delayed renewal finds",
		}},
		{"keys are joined by a colon", func(s able) guard.Store { return joinedKeys{s} }, []string{
			"Keys/two keys never share a record",
		}},
		{"contexts are ignored", func(s able) guard.Store { return deaf{s} }, []string{
			"Context/a canceled context fails every call at once",
			"Context/an expired context fails every call at once",
		}},
	}
}

// noAbilities is a store that has nothing but the protocol. That is no fault.
func noAbilities() fault {
	return fault{"no abilities", func(s able) guard.Store { return struct{ guard.Store }{s} }, []string{
		"Dispatch/a reservation is dispatched from its first moment on",
		"Mark/a missing record is put back and marked at once",
		"Takeover of what was dispatched/without recovery it becomes held in that very step",
		"Held/its owner's result settles it",
		"Failed/the owner's reservation becomes its error",
		"Hold/a late hold and a takeover never both succeed",
		"Resolve/a held record is settled",
		"List/every key comes back as it is",
		"Erase/a result is forgotten and the key is free",
		"Watch/a result gives notice",
	}}
}

// TestBrokenStore is run by the tests below, in a process of its own because it
// fails.
func TestBrokenStore(t *testing.T) {
	for _, f := range append(faults(), noAbilities()) {
		if f.name == os.Getenv(faultEnv) {
			storetest.Run(t, storetest.Harness{
				New: func(*testing.T) guard.Store { return f.broken(guard.NewMemoryStore()) },
			})
			return
		}
	}
	t.Skip("runs with a fault only")
}

func TestRun_NoticesABrokenStore(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			out, err := f.run(t, "/"+f.groups())
			if err == nil {
				t.Fatal("the suite passed")
			}
			f.wantLines(t, out, "FAIL")
		})
	}
}

func TestRun_SkipsWhatAStoreIsNotAbleTo(t *testing.T) {
	t.Parallel()
	f := noAbilities()
	out, err := f.run(t, "")
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	f.wantLines(t, out, "SKIP")
}

// run is the suite with the fault, or the groups of it that match.
func (f fault) run(t *testing.T, groups string) ([]byte, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestBrokenStore$"+groups, "-test.v", "-test.timeout=1m", "-test.parallel=50")
	cmd.Env = append(os.Environ(), faultEnv+"="+f.name)
	return cmd.CombinedOutput()
}

// wantLines wants the clauses of the fault to have ended like this.
func (f fault) wantLines(t *testing.T, out []byte, end string) {
	t.Helper()
	for _, clause := range f.clauses {
		if !bytes.Contains(out, []byte("--- "+end+": TestBrokenStore/"+strings.ReplaceAll(clause, " ", "_")+" ")) {
			t.Errorf("the suite has no %s of %q:\n%s", end, clause, out)
		}
	}
}

// store breaks one method of the store it wraps.
type store struct {
	able
	reserve func(context.Context, guard.Store, guard.ReserveRequest) (guard.ReserveReply, error)
	renew   func(context.Context, guard.Store, guard.RenewRequest) (guard.RenewReply, error)
	replace func(context.Context, guard.Store, guard.ReplaceRequest) (guard.ReplaceReply, error)
	release func(context.Context, guard.Store, guard.ReleaseRequest) (guard.ReleaseReply, error)
}

func wrap(break_ func(*store)) func(able) guard.Store {
	return func(sound able) guard.Store {
		s := &store{able: sound, reserve: soundReserve, renew: soundRenew, replace: soundReplace, release: soundRelease}
		break_(s)
		return s
	}
}

func takesAnyTurn(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	if req.Turn != nil {
		req.Turn = &guard.Turn{Job: req.Turn.Job, Number: req.Turn.Number + 100}
	}
	return s.Reserve(ctx, req)
}

func keepsNothing(ctx context.Context, s guard.Store, req guard.RenewRequest) (guard.RenewReply, error) {
	req.Keep = nil
	return s.Renew(ctx, req)
}

func withReserve(f func(context.Context, guard.Store, guard.ReserveRequest) (guard.ReserveReply, error)) func(*store) {
	return func(s *store) { s.reserve = f }
}

func withRenew(f func(context.Context, guard.Store, guard.RenewRequest) (guard.RenewReply, error)) func(*store) {
	return func(s *store) { s.renew = f }
}

func withReplace(f func(context.Context, guard.Store, guard.ReplaceRequest) (guard.ReplaceReply, error)) func(*store) {
	return func(s *store) { s.replace = f }
}

func withRelease(f func(context.Context, guard.Store, guard.ReleaseRequest) (guard.ReleaseReply, error)) func(*store) {
	return func(s *store) { s.release = f }
}

func (s *store) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	return s.reserve(ctx, s.able, req)
}

func (s *store) Renew(ctx context.Context, req guard.RenewRequest) (guard.RenewReply, error) {
	return s.renew(ctx, s.able, req)
}

func (s *store) Replace(ctx context.Context, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	return s.replace(ctx, s.able, req)
}

func (s *store) Release(ctx context.Context, req guard.ReleaseRequest) (guard.ReleaseReply, error) {
	return s.release(ctx, s.able, req)
}

func soundReserve(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	return s.Reserve(ctx, req)
}

func soundRenew(ctx context.Context, s guard.Store, req guard.RenewRequest) (guard.RenewReply, error) {
	return s.Renew(ctx, req)
}

func soundReplace(ctx context.Context, s guard.Store, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	return s.Replace(ctx, req)
}

func soundRelease(ctx context.Context, s guard.Store, req guard.ReleaseRequest) (guard.ReleaseReply, error) {
	return s.Release(ctx, req)
}

func takesLive(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	reply, err := s.Reserve(ctx, req)
	if reply.Record.Status == guard.StatusPending {
		reply.Acquired = true
	}
	return reply, err
}

func looksThenTakes(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	loaded, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
	if err != nil {
		return guard.ReserveReply{}, err
	}
	time.Sleep(10 * time.Millisecond) // two callers are here at once
	reply, err := s.Reserve(ctx, req)
	reply.Acquired = reply.Acquired || !loaded.Found
	return reply, err
}

func forgetsTokens(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	req.Owner.Token = rand.Text()
	return s.Reserve(ctx, req)
}

func healsAny(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	if req.Unreadable != nil {
		found, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
		if err != nil {
			return guard.ReserveReply{}, err
		}
		req.Unreadable = &guard.Seen{OwnerToken: found.Record.Owner.Token, Fence: found.Record.Fence}
	}
	return s.Reserve(ctx, req)
}

func forgetsPrevious(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	reply, err := s.Reserve(ctx, req)
	reply.Record.TookOver = nil
	return reply, err
}

func fenceStartsOver(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	reply, err := s.Reserve(ctx, req)
	reply.Record.Fence = 1
	return reply, err
}

func neverLost(ctx context.Context, s guard.Store, req guard.RenewRequest) (guard.RenewReply, error) {
	reply, err := s.Renew(ctx, req)
	if reply.Status == guard.RenewLost {
		reply.Status = guard.RenewOK
	}
	return reply, err
}

func restoresHalf(ctx context.Context, s guard.Store, req guard.RenewRequest) (guard.RenewReply, error) {
	req.Record.Fingerprint = guard.Fingerprint{}
	return s.Renew(ctx, req)
}

func restoresLate(ctx context.Context, s guard.Store, req guard.RenewRequest) (guard.RenewReply, error) {
	req.Record.Until = req.Record.Until.Add(time.Hour)
	return s.Renew(ctx, req)
}

func replacesAny(ctx context.Context, s guard.Store, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	loaded, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
	if err != nil {
		return guard.ReplaceReply{}, err
	}
	if loaded.Found {
		req.Record.Owner = loaded.Record.Owner
	}
	return s.Replace(ctx, req)
}

func trims(ctx context.Context, s guard.Store, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	req.Result = bytes.TrimSpace(req.Result)
	return s.Replace(ctx, req)
}

func noTombstone(ctx context.Context, s guard.Store, req guard.ReleaseRequest) (guard.ReleaseReply, error) {
	loaded, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
	if err != nil || !loaded.Found {
		return guard.ReleaseReply{}, err
	}
	return s.Release(ctx, req)
}

// joinedKeys takes operation and name for one text. It has no abilities.
type joinedKeys struct{ guard.Store }

func join(key guard.Key) guard.Key { return guard.Key{Name: key.Operation + ":" + key.Name} }

func (s joinedKeys) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	req.Key = join(req.Key)
	return s.Store.Reserve(ctx, req)
}

func (s joinedKeys) Load(ctx context.Context, req guard.LoadRequest) (guard.LoadReply, error) {
	req.Key = join(req.Key)
	return s.Store.Load(ctx, req)
}

// deaf does not look at the context. It has no abilities.
type deaf struct{ guard.Store }

func (s deaf) Reserve(_ context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	return s.Store.Reserve(context.Background(), req)
}

func (s deaf) Load(_ context.Context, req guard.LoadRequest) (guard.LoadReply, error) {
	return s.Store.Load(context.Background(), req)
}
