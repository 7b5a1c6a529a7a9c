package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/onceguard/onceguard/examples/internal/setup"
	"github.com/onceguard/onceguard/temporalx"
)

// Decision is the approver's answer.
type Decision struct {
	Request  int // the number of the request that it answers
	Approved bool
}

// thinks is how long the approver takes.
const thinks = time.Second

// approver is somebody elsewhere who gets requests, and answers each. In life they come by mail, and
// the approver's program is another process: it shares with the worker the store and the rules.
type approver struct {
	env     setup.Env
	guarded *temporalx.Interceptor
	letters chan letter
	mu      sync.Mutex
	asked   map[string]int // how often, by order
}

type letter struct {
	number int
	order  string
	token  []byte
}

func newApprover(env setup.Env) (*approver, error) {
	guarded, err := guardApprovals(env.Store)
	if err != nil {
		return nil, err
	}
	return &approver{env: env, guarded: guarded, letters: make(chan letter, 100), asked: make(map[string]int)}, nil
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

// work answers requests until the context ends.
func (a *approver) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-a.letters:
			a.env.Say("the approver has request %d for %s", l.number, l.order)
			time.Sleep(thinks)
			// After an error it may be tried again with the same decision. Here the example ends.
			decision := Decision{Request: l.number, Approved: true}
			if err := a.guarded.CompleteActivity(ctx, a.env.Client, l.token, decision, nil); err != nil {
				return fmt.Errorf("answer request %d: %w", l.number, err)
			}
			a.env.Say("the approver has answered request %d", l.number)
		}
	}
}
