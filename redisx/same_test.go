package redisx

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

// TestStore_DoesAsTheMemoryStore gives the same random calls to both stores. Time is
// only ever long or over: a duration is an hour, or passes before the next call.
func TestStore_DoesAsTheMemoryStore(t *testing.T) {
	t.Parallel()
	store := newStore(t, realtest.Redis(t).Client(t)) // its lists are short
	for seed := range uint64(100) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			w := &twins{t: t, Rand: random, key: testKey(t)}
			w.memory.store, w.redis.store = guard.NewMemoryStore(), store
			for range 40 {
				w.step()
				if t.Failed() {
					t.Fatalf("after:\n%s", strings.Join(w.log, "\n"))
				}
			}
		})
	}
}

type wholeStore interface {
	guard.Store
	guard.Eraser
	guard.Holder
	guard.Resolver
	guard.Lister
}

// twin is one of the stores and what the owners know from it.
type twin struct {
	store wholeStore
	seen  map[string]guard.Record // by owner token: its reservation as it last saw it
	last  guard.Record            // in the store
}

type twins struct {
	*rand.Rand
	t             *testing.T
	key           guard.Key
	memory, redis twin
	short         bool // the step had a duration that passes
	log           []string
}

func (w *twins) chance(percent int) bool { return w.IntN(100) < percent }

func (w *twins) long(percent int) time.Duration {
	if w.chance(percent) {
		return time.Hour
	}
	w.short = true
	return time.Millisecond
}

func (w *twins) owner() guard.Owner {
	name := []string{"a", "b", "c"}[w.IntN(3)]
	return guard.Owner{Token: name, Label: "label " + name, TraceParent: "trace " + name}
}

func (w *twins) step() {
	call := w.call()
	memory, what := call(&w.memory)
	redis, _ := call(&w.redis)
	w.log = append(w.log, fmt.Sprintf("%s: %s", what, memory))
	if memory != redis {
		w.t.Errorf("%s:\nmemory: %s\nredis:  %s", what, memory, redis)
	}
	if w.short {
		time.Sleep(4 * time.Millisecond)
		w.short = false
	}
	memory, redis = w.load(&w.memory), w.load(&w.redis)
	if memory != redis {
		w.t.Errorf("after %s:\nmemory: %s\nredis:  %s", what, memory, redis)
	}
}

// load looks at the record in both ways that there are.
func (w *twins) load(s *twin) string {
	reply, err := s.store.Load(w.t.Context(), guard.LoadRequest{Key: w.key})
	if err != nil {
		w.t.Fatal(err)
	}
	s.last = reply.Record
	text := fmt.Sprint(reply.Found, " ", s.text(reply.Record, reply.Left))
	list := guard.ListRequest{Operation: w.key.Operation, Limit: maxScan}
	for {
		page, err := s.store.List(w.t.Context(), list)
		if err != nil {
			w.t.Fatal(err)
		}
		i := slices.IndexFunc(page.Records, func(l guard.Listed) bool { return l.Key == w.key })
		if i >= 0 {
			return text + " listed as " + s.text(page.Records[i].Record, page.Records[i].Left)
		}
		if list.Cursor = page.Cursor; list.Cursor == "" {
			return text
		}
	}
}

// text is what must be the same of a record: times and fences are only compared with
// each other.
func (s *twin) text(rec guard.Record, left time.Duration) string {
	known := []int64{rec.Fence}
	for _, other := range s.seen {
		known = append(known, other.Fence)
	}
	text := fmt.Sprintf("%s %s attempt %d %s %q%q left %t", rec.Status, rec.Owner, rec.Attempt,
		rec.Fingerprint, rec.Encoding, rec.Result, left > time.Minute)
	if rec.TookOver != nil {
		known = append(known, rec.TookOver.Fence)
		text += fmt.Sprint(" took over ", rec.TookOver.Owner)
	}
	if rec.Dispatch != nil {
		known = append(known, rec.Dispatch.Fence)
		text += fmt.Sprintf(" dispatched by %s since its last write %t", rec.Dispatch.Owner, rec.Dispatch.At.Equal(rec.Updated))
	}
	if rec.Kept != nil {
		text += fmt.Sprint(" kept by ", *rec.Kept)
	}
	if rec.Resolved != nil {
		text += fmt.Sprint(" resolved by ", *rec.Resolved)
	}
	sorted := slices.Sorted(slices.Values(known))
	slices.Reverse(sorted)
	return text + fmt.Sprint(" fence ", slices.Index(sorted, rec.Fence), " of ", len(slices.Compact(sorted)))
}

// know remembers what an owner sees of its own record.
func (s *twin) know(token string, rec guard.Record) {
	if s.seen == nil {
		s.seen = map[string]guard.Record{}
	}
	s.seen[token] = rec
}

// of is the record of an owner, which knows nothing before its first reply.
func (s *twin) of(owner guard.Owner) guard.Record {
	if rec, ok := s.seen[owner.Token]; ok {
		return rec
	}
	return guard.Record{Owner: owner}
}

type twinCall func(*twin) (answer, what string)

func (w *twins) call() twinCall {
	owner := w.owner()
	switch w.IntN(24) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9:
		return w.reserve(owner)
	case 10, 11:
		return w.renew(owner)
	case 12, 13:
		return w.replace(owner)
	case 14, 15, 16, 17:
		return w.release(owner)
	case 18, 19:
		return w.hold(owner)
	case 20, 21:
		return w.resolve()
	case 22:
		return w.erase()
	default:
		return w.lose()
	}
}

func (w *twins) reserve(owner guard.Owner) twinCall {
	req := guard.ReserveRequest{
		Key: w.key, Owner: owner, Lease: w.long(40), Retention: w.long(50),
		Dispatched: w.chance(50), Recovers: w.chance(40), Settle: w.long(30), HoldRetention: w.long(80),
	}
	if w.chance(60) {
		digest := []string{"x", "x", "x", "y"}[w.IntN(4)]
		req.Fingerprint = guard.Fingerprint{Algorithm: []string{"sha", "other:%"}[w.IntN(8)/7], Digest: digest}
	}
	if w.chance(40) {
		req.Turn = w.turn()
	}
	unreadable := w.chance(20)
	return func(s *twin) (string, string) {
		req := req
		if unreadable {
			req.Unreadable = &guard.Seen{OwnerToken: s.last.Owner.Token, Fence: s.last.Fence}
		}
		reply, err := s.store.Reserve(w.t.Context(), req)
		if reply.Acquired {
			s.know(owner.Token, reply.Record)
		}
		return fmt.Sprint(reply.Acquired, reply.Held, " ", s.text(reply.Record, reply.Left), err), fmt.Sprintf("reserve %+v", req)
	}
}

// turn is one of a few, so that they meet.
func (w *twins) turn() *guard.Turn {
	return &guard.Turn{Job: []string{"job", "job", "a:%job"}[w.IntN(3)], Number: int64(w.IntN(4))}
}

func (w *twins) renew(owner guard.Owner) twinCall {
	req := guard.RenewRequest{
		Key: w.key, Lease: w.long(60), Retention: w.long(50),
		Dispatched: w.chance(50), NothingFound: w.chance(30), HoldRetention: w.long(80),
	}
	if w.chance(40) {
		req.Keep = w.turn()
	}
	return func(s *twin) (string, string) {
		req := req
		req.Record = s.of(owner)
		reply, err := s.store.Renew(w.t.Context(), req)
		if reply.Status != guard.RenewLost {
			req.Record.Until = reply.Until
			s.know(owner.Token, req.Record)
		}
		return fmt.Sprint(reply.Status, reply.Until.IsZero(), err), fmt.Sprintf("renew %+v", req)
	}
}

func (w *twins) replace(owner guard.Owner) twinCall {
	req := guard.ReplaceRequest{
		Key: w.key, Failed: w.chance(40), Encoding: "e", Result: []byte("result of " + owner.Token),
		Lease: w.long(50), Retention: w.long(50),
	}
	return func(s *twin) (string, string) {
		req := req
		req.Record = s.of(owner)
		reply, err := s.store.Replace(w.t.Context(), req)
		return fmt.Sprint(reply, err), fmt.Sprintf("replace %+v", req)
	}
}

func (w *twins) release(owner guard.Owner) twinCall {
	req := guard.ReleaseRequest{Key: w.key, Lease: w.long(50)}
	return func(s *twin) (string, string) {
		req := req
		req.Record = s.of(owner)
		reply, err := s.store.Release(w.t.Context(), req)
		return fmt.Sprint(reply, err), fmt.Sprintf("release %+v", req)
	}
}

func (w *twins) hold(owner guard.Owner) twinCall {
	req := guard.HoldRequest{Key: w.key, Lease: w.long(30), Retention: w.long(60)}
	return func(s *twin) (string, string) {
		req := req
		req.Record = s.of(owner)
		reply, err := s.store.Hold(w.t.Context(), req)
		return fmt.Sprint(reply, err), fmt.Sprintf("hold %+v", req)
	}
}

func (w *twins) resolve() twinCall {
	req := guard.ResolveRequest{
		Key: w.key, Resolver: guard.Owner{Token: []string{"r", "s"}[w.IntN(2)], Label: "operator"},
		As:       []guard.Status{guard.StatusCompleted, guard.StatusFailed, guard.StatusReleased}[w.IntN(3)],
		Encoding: "e", Result: []byte("resolved"), Live: w.chance(50), Lease: w.long(70), Retention: w.long(70),
	}
	late := w.chance(20)
	return func(s *twin) (string, string) {
		req := req
		if req.Fence = s.last.Fence; late {
			req.Fence--
		}
		reply, err := s.store.Resolve(w.t.Context(), req)
		return fmt.Sprint(reply.Resolved, reply.Found, " ", s.text(reply.Record, reply.Left), err), fmt.Sprintf("resolve %+v", req)
	}
}

func (w *twins) erase() twinCall {
	req := guard.EraseRequest{Key: w.key, Lease: w.long(50)}
	return func(s *twin) (string, string) {
		reply, err := s.store.Erase(w.t.Context(), req)
		return fmt.Sprint(reply.Erased, " ", s.text(reply.Record, reply.Left), err), fmt.Sprintf("erase %+v", req)
	}
}

// lose is a server that is flushed.
func (w *twins) lose() twinCall {
	return func(s *twin) (string, string) {
		switch store := s.store.(type) {
		case *guard.MemoryStore:
			store.Clear()
		case *Store:
			if err := store.rdb.Del(w.t.Context(), storageKey(store.prefix, w.key)).Err(); err != nil {
				w.t.Fatal(err)
			}
		}
		return "", "lose"
	}
}
