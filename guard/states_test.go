package guard_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

const (
	stateLease     = time.Minute
	stateRetention = time.Hour
)

// stateTable reads the table of the package comment: for each state of a key what
// the calls of the store do.
func stateTable(t *testing.T) map[string][5]string {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(doc), "reserve   renew     replace   release    hold\n")
	if !ok {
		t.Fatal("doc.go has no state table")
	}
	table := map[string][5]string{}
	row := regexp.MustCompile(`^//\t(\S.*?)  +(\w+) +(\w+) +(\w+) +(\w+) +(\w+)$`)
	for line := range strings.Lines(text) {
		cells := row.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if cells == nil {
			break
		}
		table[cells[1]] = [5]string(cells[2:])
	}
	return table
}

// scene is a key in a state, and an owner who comes with what it last saw.
type scene struct {
	*testing.T
	store *guard.MemoryStore
	key   guard.Key
	own   guard.Record
	// recovers says that reserves are of callers with a recovery hook.
	recovers bool
}

// states brings a key into each state of the table.
func states() map[string]func(*scene) {
	return map[string]func(*scene){
		"nothing":                      func(s *scene) { s.own = s.reserve("me"); s.store.Clear() },
		"nothing, own lease over":      func(s *scene) { s.own = s.reserve("me"); s.store.Clear(); time.Sleep(stateLease) },
		"own, with another's evidence": func(s *scene) { s.dispatch("rival"); s.recovers = true; s.own = s.reserve("me") },
		"another's, with own evidence": func(s *scene) {
			s.dispatch("me")
			s.own = s.load().Record
			s.recovers = true
			s.reserve("rival")
		},
		"own, held":                         func(s *scene) { s.own = s.reserve("me"); s.hold() },
		"another's, dispatched, lease over": func(s *scene) { s.dispatch("rival") },
		"another's, held":                   func(s *scene) { s.dispatch("rival"); s.reserve("rival's rival") },
		"own reservation":                   func(s *scene) { s.own = s.reserve("me") },
		"own reservation, lease over":       func(s *scene) { s.own = s.reserve("me"); time.Sleep(stateLease) },
		"own result":                        func(s *scene) { s.own = s.reserve("me"); s.replace(s.own) },
		"own tombstone":                     func(s *scene) { s.own = s.reserve("me"); s.release(s.own) },
		"another's reservation":             func(s *scene) { s.reserve("rival") },
		"another's reservation, lease over": func(s *scene) { s.reserve("rival"); time.Sleep(stateLease) },
		"another's result":                  func(s *scene) { s.replace(s.reserve("rival")) },
		"another's result, retention over": func(s *scene) {
			// A retention shorter than the lease: the record outlives its result.
			s.replaceFor(s.reserve("rival"), time.Second)
			time.Sleep(time.Second)
		},
		"another's tombstone": func(s *scene) { s.release(s.reserve("rival")) },
	}
}

func TestDoc_TheStateTableIsWhatTheStoreDoes(t *testing.T) {
	table, made := stateTable(t), states()
	if len(table) != len(made) {
		t.Errorf("the table of doc.go has %d states, this test %d", len(table), len(made))
	}
	calls := [5]struct {
		name string
		word func(*scene) string
	}{
		{"reserve", (*scene).reserveWord},
		{"renew", func(s *scene) string { return string(s.renew()) }},
		{"replace", func(s *scene) string { return string(s.replace(s.own)) }},
		{"release", (*scene).releaseWord},
		{"hold", func(s *scene) string { return string(s.hold()) }},
	}
	for state, bring := range made {
		for i, call := range calls {
			t.Run(state+"/"+call.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &scene{T: t, store: guard.NewMemoryStore(), key: guard.Key{Operation: "o", Name: "k"}}
					s.own = guard.Record{Owner: guard.Owner{Token: "me"}}
					bring(s)
					before := s.load()
					got := call.word(s)
					if want := table[state][i]; got != want {
						t.Errorf("%s says %q, doc.go %q", call.name, got, want)
					}
					changes := got != "found" && got != "lost" && got != "stale" && got != "refused" && got != "again"
					if after := s.load(); !changes && !sameRecord(before, after) {
						t.Errorf("%s changed %+v to %+v", got, before, after)
					}
				})
			})
		}
	}
}

func sameRecord(a, b guard.LoadReply) bool {
	return a.Found == b.Found && a.Record.Owner == b.Record.Owner && a.Record.Status == b.Record.Status &&
		a.Record.Fence == b.Record.Fence && a.Record.Until.Equal(b.Record.Until)
}

func (s *scene) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) load() guard.LoadReply {
	s.Helper()
	reply, err := s.store.Load(s.Context(), guard.LoadRequest{Key: s.key})
	s.check(err)
	return reply
}

func (s *scene) ask(owner string) guard.ReserveReply {
	s.Helper()
	reply, err := s.store.Reserve(s.Context(), guard.ReserveRequest{
		Key: s.key, Owner: guard.Owner{Token: owner}, Lease: stateLease, Retention: stateRetention,
		Recovers: s.recovers,
	})
	s.check(err)
	return reply
}

func (s *scene) reserve(owner string) guard.Record { return s.ask(owner).Record }

// dispatch is an owner whose lease runs out after its dispatch.
func (s *scene) dispatch(owner string) {
	s.Helper()
	_, err := s.store.Reserve(s.Context(), guard.ReserveRequest{
		Key: s.key, Owner: guard.Owner{Token: owner}, Lease: stateLease, Retention: stateRetention,
		Dispatched: true, HoldRetention: stateRetention,
	})
	s.check(err)
	time.Sleep(stateLease)
}

func (s *scene) hold() guard.HoldStatus {
	s.Helper()
	reply, err := s.store.Hold(s.Context(), guard.HoldRequest{
		Key: s.key, Record: s.own, Lease: stateLease, Retention: stateRetention,
	})
	s.check(err)
	return reply.Status
}

func (s *scene) reserveWord() string {
	reply := s.ask("me")
	switch {
	case reply.Held:
		return "held"
	case !reply.Acquired:
		return "found"
	case reply.Record.TookOver != nil:
		return "takeover"
	default:
		return "acquired"
	}
}

func (s *scene) renew() guard.RenewStatus {
	s.Helper()
	reply, err := s.store.Renew(s.Context(), guard.RenewRequest{
		Key: s.key, Record: s.own, Lease: stateLease, Retention: stateRetention,
	})
	s.check(err)
	return reply.Status
}

func (s *scene) replace(own guard.Record) guard.ReplaceStatus {
	s.Helper()
	return s.replaceFor(own, stateRetention)
}

func (s *scene) replaceFor(own guard.Record, retention time.Duration) guard.ReplaceStatus {
	s.Helper()
	reply, err := s.store.Replace(s.Context(), guard.ReplaceRequest{
		Key: s.key, Record: own, Encoding: "json", Result: []byte("1"), Lease: stateLease, Retention: retention,
	})
	s.check(err)
	return reply.Status
}

func (s *scene) release(own guard.Record) bool {
	s.Helper()
	reply, err := s.store.Release(s.Context(), guard.ReleaseRequest{Key: s.key, Record: own, Lease: stateLease})
	s.check(err)
	return reply.Released
}

func (s *scene) releaseWord() string {
	switch before := s.load(); {
	case s.release(s.own) && s.load().Record.Status == guard.StatusHeld:
		return "held"
	case s.load().Record.Status == guard.StatusReleased && before.Found && s.load().Record.Owner.Token == "me":
		return "released"
	case !before.Found && s.load().Record.Status == guard.StatusReleased:
		return "tombstone"
	default:
		return "refused"
	}
}
