package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/onceguard/onceguard/examples/internal/stage"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// approver is somebody elsewhere who gets requests, and answers each. In life they come by mail, and
// the approver's program is another process: it shares with the worker the store and the rules.
type approver struct {
	env     *stage.Env
	guarded *temporalx.Interceptor
	letters chan letter
	mu      sync.Mutex
	asked   map[string]int // how often, by order
	stale   map[string]int // how many answers were refused
}

type letter struct {
	number int
	order  string
	token  []byte
}

func newApprover(env *stage.Env, store guard.Store) (*approver, error) {
	guarded, err := guardApprovals(store)
	return &approver{
		env: env, guarded: guarded, letters: make(chan letter, 100), asked: map[string]int{}, stale: map[string]int{},
	}, err
}

// send is how a request gets to the approver.
func (a *approver) send(order string, token []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[order]++
	a.letters <- letter{a.asked[order], order, token}
}

func (a *approver) requests(order string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[order]
}

func (a *approver) refused(order string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stale[order]
}

// work answers requests until the context ends.
func (a *approver) work(ctx context.Context) error {
	var drawer letter
	for {
		var l letter
		select {
		case <-ctx.Done():
			return nil
		case l = <-a.letters:
		}
		var err error
		switch kind, _, _ := strings.Cut(l.order, "-"); {
		case kind != answersLate:
			err = a.answer(ctx, l, kind == approves)
		case l.number == 1:
			drawer = l // and forgets it there
		case l.number == 2:
			err = errors.Join(a.answer(ctx, drawer, true), a.answerByID(ctx, l))
		}
		if err != nil {
			return fmt.Errorf("answer request %d for %s: %w", l.number, l.order, err)
		}
	}
}

// answer answers a request by its token.
func (a *approver) answer(ctx context.Context, l letter, approved bool) error {
	if l.number == 1 {
		if err := a.untilAllAsk(ctx, l.order); err != nil {
			return err
		}
	}
	decision := Decision{Request: l.number, Approved: approved}
	var no error
	if !approved {
		no = decision.rejection()
	}
	// After another error it may be tried again, with the same decision. Here the example ends.
	err := a.guarded.CompleteActivity(ctx, a.env.Client, l.token, decision, no)
	if errors.Is(err, guard.ErrStale) {
		// A later attempt has the key, and has sent a request of its own. Neither the record nor the
		// activity has this answer.
		fmt.Printf("%s: the answer to request %d comes too late: %v\n", l.order, l.number, err)
		a.mu.Lock()
		a.stale[l.order]++
		a.mu.Unlock()
		return nil
	}
	return err
}

// answerByID answers whatever request for the order is open, without its token. The activity leaves
// its key when it has sent the request, so the answer may come too early.
func (a *approver) answerByID(ctx context.Context, l letter) error {
	of := temporalx.PendingActivity{
		Namespace: "default", WorkflowID: workflowID(l.order, 1), ActivityID: activityID, Type: activityType, Key: l.order,
	}
	return poll(ctx, func() (bool, error) {
		err := a.guarded.CompleteActivityByID(ctx, a.env.Client, of, Decision{Request: l.number, Approved: true}, nil)
		_, over := errors.AsType[*serviceerror.NotFound](err)
		if over { // the attempt; the next one finds the decision in the store
			err = nil
		}
		if errors.Is(err, guard.ErrStale) {
			return false, nil
		}
		fmt.Printf("%s: request %d is answered by the activity's id\n", l.order, l.number)
		return true, err
	})
}

// untilAllAsk takes time, in which every workflow asks for the order: their activities have begun, and
// none has ended.
func (a *approver) untilAllAsk(ctx context.Context, order string) error {
	if strings.HasPrefix(order, answersLate) {
		return nil
	}
	err := poll(ctx, func() (bool, error) {
		begun := 0
		for i := range workflows {
			d, err := a.env.Client.DescribeWorkflow(ctx, workflowID(order, i+1), "")
			if _, early := errors.AsType[*serviceerror.NotFound](err); early {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			for _, pending := range d.RawResponse.GetPendingActivities() {
				if pending.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED {
					begun++
				}
			}
		}
		return begun == workflows, nil
	})
	if err == nil {
		fmt.Printf("%s: %d activities have begun, of which %d have sent a request\n", order, workflows, a.requests(order))
	}
	return err
}

func poll(ctx context.Context, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

const pollEvery = 20 * time.Millisecond
