//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

// fate is what happens to an owner.
type fate string

const (
	killed  fate = "killed"
	stopped fate = "stopped" // past its lease, and resumed when the next caller has its answer
)

// mishap is a fate at a point.
type mishap struct {
	fate  fate
	at    point
	where string // the point, in words
	lost  bool   // the request that is on its way never arrives; else it does so when the next caller has its answer
}

// line is what came of a mishap in a set-up.
type line struct {
	setup         setup
	runs, charges int
	next          string // what the next caller got
	owner         string // what the owner got that was stopped
	later         string // what a call after all that got
}

// table is what is expected: of each mishap, in each set-up.
var table = []struct {
	mishap
	lines []line
}{
	// Nothing was let out, and nobody can know that but by asking. At most once is the one that loses the charge: it was
	// dispatched from the reservation on.
	{mishap{killed, inAction, "(a) before the dispatch", false}, []line{
		{byDefault, 2, 1, "executed", "", "replayed"},
		{atMostOnce, 1, 0, "outcome unknown", "", "outcome unknown"},
		{withHook, 2, 1, "executed", "", "replayed"},
	}},
	// The same for whoever looks from outside.
	{mishap{killed, inRequest, "(b) the request is out, and gets lost", true}, []line{
		{byDefault, 2, 1, "executed", "", "replayed"},
		{atMostOnce, 1, 0, "outcome unknown", "", "outcome unknown"},
		{withHook, 2, 1, "executed", "", "replayed"},
	}},
	// The hook finds nothing, and with its fence sees to it that this is final: the provider refuses what arrives then.
	{mishap{killed, inRequest, "(b) the request is out, and arrives late", false}, []line{
		{byDefault, 2, 2, "executed", "", "replayed"},
		{atMostOnce, 1, 1, "outcome unknown", "", "outcome unknown"},
		{withHook, 2, 1, "executed", "", "replayed"},
	}},
	// The charge is at the provider, and only the hook asks there.
	{mishap{killed, inReply, "(c) charged, the reply is on its way", false}, []line{
		{byDefault, 2, 2, "executed", "", "replayed"},
		{atMostOnce, 1, 1, "outcome unknown", "", "outcome unknown"},
		{withHook, 1, 1, "recovered", "", "replayed"},
	}},
	{mishap{killed, inCodec, "(d) charged, the receipt is not stored", false}, []line{
		{byDefault, 2, 2, "executed", "", "replayed"},
		{atMostOnce, 1, 1, "outcome unknown", "", "outcome unknown"},
		{withHook, 1, 1, "recovered", "", "replayed"},
	}},
	// An owner that comes back knows the outcome, and its key is still its own where it was held: there its receipt settles
	// it. By default it charges beside the next caller, who has stored a result, and so its own is stale. With the hook its request
	// has an old fence.
	{mishap{stopped, inAction, "(a) before the dispatch", false}, []line{
		{byDefault, 2, 2, "executed", "executed, stale", "replayed"},
		{atMostOnce, 1, 1, "outcome unknown", "executed", "replayed"},
		{withHook, 2, 1, "executed", "refused by the fence", "replayed"},
	}},
	// It learns only that its connection broke. At most once it holds the key, which is held as its own already.
	{mishap{stopped, inRequest, "(b) the request is out, and gets lost", true}, []line{
		{byDefault, 2, 1, "executed", "connection error", "replayed"},
		{atMostOnce, 1, 0, "outcome unknown", "connection error", "outcome unknown"},
		{withHook, 2, 1, "executed", "connection error", "replayed"},
	}},
	{mishap{stopped, inRequest, "(b) the request is out, and arrives late", false}, []line{
		{byDefault, 2, 2, "executed", "executed, stale", "replayed"},
		{atMostOnce, 1, 1, "outcome unknown", "executed", "replayed"},
		{withHook, 2, 1, "executed", "refused by the fence", "replayed"},
	}},
	// Stale with the hook too: the next caller has stored the receipt. It is the same one.
	{mishap{stopped, inReply, "(c) charged, the reply is on its way", false}, []line{
		{byDefault, 2, 2, "executed", "executed, stale", "replayed"},
		{atMostOnce, 1, 1, "outcome unknown", "executed", "replayed"},
		{withHook, 1, 1, "recovered", "executed, stale", "replayed"},
	}},
	{mishap{stopped, inCodec, "(d) charged, the receipt is not stored", false}, []line{
		{byDefault, 2, 2, "executed", "executed, stale", "replayed"},
		{atMostOnce, 1, 1, "outcome unknown", "executed", "replayed"},
		{withHook, 1, 1, "recovered", "executed, stale", "replayed"},
	}},
}

// rendered is the table in Markdown.
func rendered(cell func(m, l int) line) string {
	var b strings.Builder
	b.WriteString("| the owner is | at | set-up | runs | charges | the next caller | the owner, resumed | a call after that |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for i, row := range table {
		for j := range row.lines {
			l := cell(i, j)
			owner := l.owner
			if row.fate == killed {
				owner = "–"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %s | %s | %s |\n",
				row.fate, row.where, l.setup, l.runs, l.charges, l.next, owner, l.later)
		}
	}
	return b.String()
}

func TestTable_IsThatOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/unknown-outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := rendered(func(m, l int) line { return table[m].lines[l] }); !strings.Contains(string(doc), want) {
		t.Errorf("docs/unknown-outcomes.md does not have the table:\n%s", want)
	}
}

func TestTable_IsWhatHappens(t *testing.T) {
	redis := realtest.SharedRedis(t).Addr()
	got := make([][]line, len(table))
	var plays sync.WaitGroup
	room := make(chan struct{}, 10) // processes at once: each needs a moment of a processor
	for i, row := range table {
		got[i] = make([]line, len(row.lines))
		for j, want := range row.lines {
			room <- struct{}{}
			plays.Go(func() {
				defer func() { <-room }()
				got[i][j] = row.playUndisturbed(t, config{
					Setup: want.setup, Redis: redis, Lease: 2 * time.Second,
					Order: provider.Order{ID: fmt.Sprintf("table-%d-%d", i, j), Cents: 4999},
				})
			})
		}
	}
	plays.Wait()
	t.Logf("\n%s", rendered(func(m, l int) line { return got[m][l] }))
	for i, row := range table {
		for j, want := range row.lines {
			if got[i][j] != want {
				t.Errorf("%s %s:\n got %+v\nwant %+v", row.fate, row.where, got[i][j], want)
			}
		}
	}
}

// playUndisturbed plays again what a machine that is too busy to answer in time has
// disturbed: what storage errors lead to is not the matter of the table. They lead to no second charge,
// though, where there is protection: that holds for each play.
func (m mishap) playUndisturbed(t *testing.T, c config) (got line) {
	t.Helper()
	order := c.Order.ID
	for try := range 3 {
		c.Order.ID = fmt.Sprintf("%s-%d", order, try)
		var charges []provider.Receipt
		var err error
		got, charges, err = m.play(c)
		if c.Setup != byDefault && len(charges) > 1 || errors.Is(err, errNotBooked) {
			t.Errorf("%s %s, %s: %+v, %v, charges: %+v", m.fate, m.where, c.Setup, got, err, charges)
			return got
		}
		if err == nil && !got.disturbed() {
			return got
		}
		t.Logf("%s %s, %s: plays again: %+v, %v", m.fate, m.where, c.Setup, got, err)
	}
	return got
}

var errNotBooked = errors.New("a receipt that is not in the ledger")

// disturbed says that the store did not answer a call. One that runs without it, where there is
// protection, is no disturbance but a fault.
func (l line) disturbed() bool {
	return slices.ContainsFunc([]string{l.next, l.owner, l.later}, func(outcome string) bool {
		return strings.HasPrefix(outcome, string(guard.OutcomeRejected)) ||
			l.setup == byDefault && strings.HasPrefix(outcome, string(guard.OutcomeUnguarded))
	})
}

// play lets the mishap happen to an owner in a process of its own, and calls from this
// one. The charges are those in the ledger when nobody is at work any more, whatever went wrong.
func (m mishap) play(c config) (got line, charges []provider.Receipt, err error) {
	request, reply := newGate(), newGate()
	only := func(g *gate, at point) func(*http.Request) bool {
		if m.at != at {
			g = nil
		}
		return func(*http.Request) bool { return g.pass() }
	}
	n := newNetwork(func(*http.Request) {}, only(request, inRequest), only(reply, inReply))
	defer func() {
		n.server.Close()
		charges = n.ledger.Book()[c.Order.ID]
	}()
	c.Provider = n.server.URL
	here, err := newPayer(c, func(point) {})
	if err != nil {
		return got, nil, err
	}
	defer here.close()
	c.Halt = m.at
	owner, err := startChild(c)
	if err != nil {
		return got, nil, err
	}
	defer owner.Kill()

	at := map[point]*gate{inRequest: request, inReply: reply}[m.at]
	reached := owner.halts
	if at != nil {
		reached = at.reached
		defer at.decide(false)
	}
	if ok, err := owner.await(reached); !ok || err != nil {
		return got, nil, fmt.Errorf("the owner is not at the point: %w\n%s", err, owner.Errors())
	}
	got, err = m.after(c.Setup, n, here, owner, at)
	return got, nil, err
}

// after is what happens once the owner is at the point.
func (m mishap) after(s setup, n *network, here *payer, owner *child, at *gate) (line, error) {
	var seen []report
	pay := func() string {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		r := reportOf(here.pay(ctx))
		seen = append(seen, r)
		return r.Outcome
	}
	got := line{setup: s}
	if m.fate == killed {
		owner.Kill()
	} else if err := owner.stop(); err != nil {
		return got, err
	}
	if at != nil && m.lost {
		at.decide(false)
	}
	got.next = pay()
	if at != nil && !m.lost {
		at.decide(true)
	}
	if at != nil {
		n.settle()
	}
	if m.fate == stopped {
		owner.resume()
		r, err := owner.report()
		if err != nil {
			return got, err
		}
		seen = append(seen, r)
		got.owner = r.Outcome
	}
	got.later = pay()
	charges := n.ledger.Book()[here.Order.ID]
	got.runs, got.charges = int(here.runs.Load()+owner.runs.Load()), len(charges)
	for _, r := range seen {
		if r.Got && !slices.Contains(charges, r.Receipt) {
			return got, fmt.Errorf("%w: %+v, of %+v", errNotBooked, r, charges)
		}
	}
	return got, nil
}
