//go:build unix

package storm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
)

// noKeyIsLeft wants that no key is reserved or held. An attempt that Temporal has given up may have one for a
// moment more.
func (s *storm) noKeyIsLeft(ctx context.Context) {
	moment, cancel := context.WithTimeout(ctx, 10*lease)
	defer cancel()
	left, err := s.openKeys(ctx)
	for err == nil && len(left) > 0 && wait(moment, lease/10) {
		left, err = s.openKeys(ctx)
	}
	s.note(err)
	for _, key := range left {
		s.t.Errorf("the key %s is left %s, dispatched: %t, record: %+v", key.Key.Name, key.State, key.Record.Dispatch != nil, key.Record)
	}
}

func (s *storm) openKeys(ctx context.Context) (left []guard.OpenKey, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: s.config.Redis})
	defer rdb.Close()
	store, err := redisx.New(rdb, redisx.Options{Prefix: s.config.Queue})
	if err != nil {
		return nil, err
	}
	g, err := guard.New(store)
	if err != nil {
		return nil, err
	}
	for key, err := range g.List(ctx, guard.ListQuery{}) {
		if err != nil {
			return nil, err
		}
		left = append(left, key)
	}
	return left, nil
}

// result is a line of the table.
type result struct {
	orders, charges, twice int // twice: orders of a single workflow that are charged more than once
}

// count closes the provider, when every charge that is on its way has arrived.
func (s *storm) count() (r result, book map[string][]Receipt) {
	book = s.provider.close()
	askers := map[string]int{}
	for n := range s.workflows {
		o := s.order(n)
		askers[o.ID]++
	}
	for id, charges := range book {
		r.charges += len(charges)
		if askers[id] == 1 && len(charges) > 1 {
			r.twice++
		}
	}
	r.orders = len(askers)
	return r, book
}

// judge wants one charge for each order, and its receipt for each workflow.
func (s *storm) judge() {
	s.t.Helper()
	r, book := s.count()
	s.result = r
	if len(book) != r.orders {
		s.t.Errorf("%d orders are charged, want %d", len(book), r.orders)
	}
	for id, charges := range book {
		if len(charges) != 1 {
			s.t.Errorf("seed %d: %d charges for %s, want 1: %+v", s.config.Seed, len(charges), id, charges)
		}
	}
	for n := range s.workflows {
		o := s.order(n)
		if got := s.receipts[s.workflowID(n)]; len(book[o.ID]) == 0 || got != book[o.ID][0] {
			s.t.Errorf("workflow %d has the receipt %+v, the charges of %s are %+v", n, got, o.ID, book[o.ID])
		}
	}
	s.provesSomething()
}

// provesSomething wants that there was a storm, and that the guard had to do with it.
func (s *storm) provesSomething() {
	s.t.Helper()
	if kills := s.sum.Of(wordKill); kills < s.leastKills {
		s.t.Errorf("%d kills, want %d or more", kills, s.leastKills)
	}
	want := []string{replayed, recovered, wordTakeover}
	if s.workflows >= manyWorkflows {
		want = append(want, wordReplayedLater, wordCollision, nothingFound, wordRefused)
	}
	for _, what := range want {
		if s.sum.Of(what) == 0 {
			s.t.Errorf("there is nothing of: %s", what)
		}
	}
}

var (
	replayed  = fmt.Sprintf("%s %s", wordCall, guard.OutcomeReplayed)
	recovered = fmt.Sprintf("%s %s", wordCall, guard.OutcomeRecovered)

	nothingFound = fmt.Sprintf("%s %s", wordHook, guard.NotFound)
)

// judgeUnguarded wants an order that is charged more than once although a single workflow asks for it.
func (s *storm) judgeUnguarded() {
	s.t.Helper()
	s.result, _ = s.count()
	if s.result.twice == 0 {
		s.t.Errorf("seed %d: without the guard no order of a single workflow is charged more than once: "+
			"the storm proves nothing", s.config.Seed)
	}
}

// table is what came of the storms, in Markdown.
func table(storms ...*storm) string {
	var b strings.Builder
	b.WriteString("| workers | workflows | orders | kills | charges cut short | charges | orders charged again | " +
		"recovered | replayed | takeovers | seconds |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range storms {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n",
			s.config.Queue, s.workflows, s.result.orders, s.sum.Of(wordKill),
			s.sum.Of(wordCutShort), s.result.charges, s.result.twice,
			s.sum.Of(recovered), s.sum.Of(replayed), s.sum.Of(wordTakeover), int(s.took.Round(time.Second).Seconds()))
	}
	return b.String()
}
