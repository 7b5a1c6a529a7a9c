//go:build unix

package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/onceguard/onceguard/internal/realtest"
)

const (
	fewWorkflows  = 60 // of a run that says nothing else
	fewUnguarded  = 40
	fewPace       = 160 * time.Millisecond // between the starts of two workflows: 60 in ten seconds
	pace          = 240 * time.Millisecond // of a run that says how many: 500 in two minutes
	manyWorkflows = 500                    // from here on there must be many kills
	workers       = 3                      // at a time
	longestLife   = 4 * time.Second        // of a worker, from when it takes work
	duplicates    = 10                     // each so many-th workflow asks for the order of one before it
	patience      = 3 * time.Minute        // how long all may take after the kills
)

// The environment variables of a longer run, see `make soak`.
const (
	workflowsVariable = "ONCEGUARD_WORKFLOWS"
	seedVariable      = "ONCEGUARD_SEED"
)

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		t.Fatalf("%s=%q is not a positive number", variable, text)
	}
	return n
}

// The same storm over workers with the guard and without it.
func TestStorm_EachOrderIsChargedOnce(t *testing.T) {
	workflows := int(number(t, workflowsVariable, fewWorkflows))
	unguarded := int(number(t, workflowsVariable, fewUnguarded))
	seed := number(t, seedVariable, rand.Uint64()%1_000_000)
	t.Logf("%s=%d %s=%d", workflowsVariable, workflows, seedVariable, seed)
	with := newStorm(t, "guarded", workflows, seed)
	with.run()
	with.judge()
	if t.Failed() {
		return
	}
	without := newStorm(t, "unguarded", unguarded, seed)
	without.run()
	without.judgeUnguarded()
	t.Logf("seed %d:\n%s", seed, table(with, without))
}

// storm is some workflows, and workers that are killed.
type storm struct {
	t          *testing.T
	config     config // of each worker, but for its name
	workflows  int
	pace       time.Duration
	leastKills int
	temporal   client.Client
	provider   *provider
	sum        realtest.Tally
	begin      time.Time
	took       time.Duration
	result     result

	stormy, over chan struct{} // closed when the kills are over, and when all is

	mu       sync.Mutex
	receipts map[string]Receipt // by workflow id
}

func newStorm(t *testing.T, queue string, workflows int, seed uint64) *storm {
	t.Helper()
	server := realtest.SharedTemporal(t)
	s := &storm{
		t: t, workflows: workflows, pace: pace, leastKills: 5, temporal: server.Client(),
		config: config{
			Temporal: server.Addr(), Queue: queue, Redis: realtest.SharedRedis(t).Addr(),
			Guarded: queue == "guarded", Seed: seed,
		},
		stormy: make(chan struct{}), over: make(chan struct{}), receipts: map[string]Receipt{},
	}
	if os.Getenv(workflowsVariable) == "" {
		s.pace = fewPace
	}
	if workflows >= manyWorkflows {
		s.leastKills = workflows / 10
	}
	s.provider = newProvider(seed, &s.sum)
	s.config.Provider = s.provider.server.URL
	return s
}

// run returns when all workflows have completed, and fails the test when they do not.
func (s *storm) run() {
	s.t.Helper()
	s.begin = time.Now()
	kills := time.Duration(s.workflows) * s.pace
	ctx, cancel := context.WithTimeout(s.t.Context(), kills+patience)
	defer cancel()
	var lives, flows sync.WaitGroup
	for slot := range workers {
		lives.Go(func() { s.note(s.live(ctx, slot)) })
	}
	flows.Go(func() { s.endKills(ctx, kills) })
	for n := range s.workflows {
		flows.Go(func() { s.note(s.checkout(ctx, n)) })
	}
	flows.Wait()
	s.took = time.Since(s.begin)
	if s.config.Guarded && ctx.Err() == nil {
		s.noKeyIsLeft(ctx)
	}
	close(s.over)
	lives.Wait()
	s.t.Logf("%s, %d workflows in %s:%s", s.config.Queue, s.workflows, s.took.Round(time.Second), s.sum.String())
	if s.t.Failed() {
		s.provider.close()
		s.t.FailNow()
	}
}

func (s *storm) note(err error) {
	if err != nil {
		s.t.Errorf("%s, seed %d, after %s: %v", s.config.Queue, s.config.Seed, time.Since(s.begin).Round(time.Millisecond), err)
	}
}

// endKills ends the kills after a time, or later when the machine was too busy for some of them.
func (s *storm) endKills(ctx context.Context, after time.Duration) {
	defer close(s.stormy)
	wait(ctx, after)
	for s.sum.Of(wordKill) < s.leastKills && wait(ctx, 100*time.Millisecond) {
	}
}

// wait returns false when the context ends first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// live starts a worker, kills it and starts the next one, until the kills are over. The last one works until
// all is over.
func (s *storm) live(ctx context.Context, slot int) error {
	d := newDice(s.config.Seed, fmt.Sprintf("worker %d", slot))
	for n := 1; ; n++ {
		c := s.config
		c.Name = fmt.Sprintf("worker %d/%d", slot, n)
		p, err := startChild(c, &s.sum)
		if err != nil {
			return err
		}
		defer p.Kill()
		life := d.upTo(longestLife)
		select {
		case <-p.ready:
		case <-p.Gone():
			return p.endedError()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", c.Name, ctx.Err())
		}
		select {
		case <-time.After(life):
			s.kill(p)
		case <-p.Gone():
			return p.endedError()
		case <-s.stormy:
			return s.outlive(p)
		}
	}
}

func (s *storm) kill(p *child) {
	hit := s.provider.underWay(p.name)
	p.Kill()
	s.sum.Add(wordKill, 1)
	s.sum.Add(wordCutShort, hit)
}

// outlive is for a worker that nobody kills any more.
func (s *storm) outlive(p *child) error {
	select {
	case <-s.over:
		return nil
	case <-p.Gone():
		return p.endedError()
	}
}

// order is that of a workflow. A duplicate asks for that of one of the eight before: while it is charged, or later.
func (s *storm) order(n int) Order {
	if n%duplicates == duplicates-1 {
		n -= 1 + newDice(s.config.Seed, fmt.Sprintf("duplicate %d", n)).IntN(duplicates-2)
	}
	return Order{ID: fmt.Sprintf("order-%d", n), Cents: 1000 + int64(n)}
}

func (s *storm) workflowID(n int) string { return fmt.Sprintf("%s-%d", s.config.Queue, n) }

// checkout starts a workflow when it is due, and waits for its receipt.
func (s *storm) checkout(ctx context.Context, n int) error {
	if !wait(ctx, time.Duration(n)*s.pace) {
		return nil // the others tell
	}
	o := s.order(n)
	run, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: s.workflowID(n), TaskQueue: s.config.Queue, WorkflowTaskTimeout: workflowTaskTime,
	}, checkout, o)
	if err != nil {
		return fmt.Errorf("start workflow %d: %w", n, err)
	}
	var receipt Receipt
	if err := run.Get(ctx, &receipt); err != nil {
		return errors.Join(fmt.Errorf("workflow %d, %s: %w", n, o.ID, err), s.describe(run))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receipts[s.workflowID(n)] = receipt
	return nil
}

// describe says where a workflow is that has not completed.
func (s *storm) describe(run client.WorkflowRun) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	is, err := s.temporal.DescribeWorkflow(ctx, run.GetID(), run.GetRunID())
	if err != nil {
		return err
	}
	return fmt.Errorf("it is %s, pending: %v", is.Status, is.RawResponse.GetPendingActivities())
}
