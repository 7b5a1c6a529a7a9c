package main

import (
	"context"
	"fmt"
	"slices"

	"go.temporal.io/sdk/client"
)

const duplicates = 10

// scenario is a mishap that is played without the guard and with it.
type scenario struct {
	name  string
	title string
	play  func(*demo, context.Context, *part) error
}

func scenarios() []scenario {
	return []scenario{
		{"gap", "a worker dies right after the charge", (*demo).playGap},
		{"kill", "a worker dies between charge and report", (*demo).playKill},
		{"duplicates", fmt.Sprintf("%d concurrent duplicates of one order", duplicates), (*demo).playDuplicates},
	}
}

// part is one scenario, played once, and what came of it.
type part struct {
	scenario scenario
	guarded  bool // the part of the guard, also when the guard is switched off
	useGuard bool
	order    Order
	receipts []Receipt // what the workflows returned
	charges  []Receipt // what the provider's ledger has
	counters counters  // of the workers
}

// play plays all scenarios: first unguarded, then guarded.
func (d *demo) play(ctx context.Context) (report, error) {
	var r report
	for _, s := range scenarios() {
		r = append(r, row{title: s.title})
	}
	for _, guarded := range []bool{false, true} {
		for i, s := range scenarios() {
			p, err := d.playPart(ctx, s, guarded)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.title, err)
			}
			if guarded {
				r[i].with = p
			} else {
				r[i].without = p
			}
		}
	}
	return r, nil
}

func (d *demo) playPart(ctx context.Context, s scenario, guarded bool) (*part, error) {
	heading := "without the guard: "
	if guarded {
		heading = "with the guard: "
	}
	d.console.title(heading + s.title)
	d.parts++
	p := &part{
		scenario: s, guarded: guarded, useGuard: guarded && d.options.guard == "on",
		order: Order{ID: fmt.Sprintf("order-%d", 100+d.parts), Cents: 4999}, counters: counters{},
	}
	if guarded && !p.useGuard {
		d.console.say("the guard is switched off by -guard=off")
	}
	if err := s.play(d, ctx, p); err != nil {
		return nil, err
	}
	book, err := d.provider.Book(ctx)
	if err != nil {
		return nil, err
	}
	p.charges = book[p.order.ID]
	d.console.say("the provider's ledger has %s for %s", plural(len(p.charges), "charge"), p.order.ID)
	return p, nil
}

// playGap kills a worker that has charged, before anybody else knows: there is no
// result in the store.
func (d *demo) playGap(ctx context.Context, p *part) error {
	return d.playDeath(ctx, p, workerConfig{holdReceipt: true},
		"no result is in the store, but a reservation: the charge may have been made, so the provider is asked")
}

// playKill kills a worker after its charge and before its report.
func (d *demo) playKill(ctx context.Context, p *part) error {
	return d.playDeath(ctx, p, workerConfig{holdReport: true},
		"the receipt is in the store: the guard puts it there before the activity returns")
}

// playDeath kills a worker where it holds, and gives the retry to another.
func (d *demo) playDeath(ctx context.Context, p *part, config workerConfig, whatIsLeft string) error {
	first, err := d.startWorker(ctx, p, config)
	if err != nil {
		return err
	}
	run, err := d.checkOut(ctx, p, 1)
	if err != nil {
		return err
	}
	if _, err := first.await(ctx, wordHolding); err != nil {
		return err
	}
	if err := first.collect(ctx, p); err != nil { // its counters die with it
		return err
	}
	first.kill()
	d.console.say("SIGKILL: %s is dead, the card is charged, and Temporal has not heard of it", first.name)
	if p.useGuard {
		d.console.say("%s", whatIsLeft)
	}
	second, err := d.startWorker(ctx, p, workerConfig{})
	if err != nil {
		return err
	}
	d.console.say("Temporal gives the activity to %s once the attempt's %s are over", second.name, attemptTimeout)
	if err := p.receive(ctx, run); err != nil {
		return err
	}
	return second.retire(ctx, p)
}

// playDuplicates checks out one order ten times at once. Each of two workers has
// room for half of them, so both take part and all ten overlap.
func (d *demo) playDuplicates(ctx context.Context, p *part) error {
	var workers []*workerChild
	for range 2 {
		w, err := d.startWorker(ctx, p, workerConfig{slots: duplicates / 2})
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	if p.useGuard {
		d.console.say("one click is to get the lease and charge; the others wait for it and return its receipt")
	}
	var runs []client.WorkflowRun
	for n := range duplicates {
		run, err := d.checkOut(ctx, p, n+1)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	for _, run := range runs {
		if err := p.receive(ctx, run); err != nil {
			return err
		}
	}
	for _, w := range workers {
		if err := w.retire(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// checkOut starts a workflow for the part's order. Each has an id of its own.
func (d *demo) checkOut(ctx context.Context, p *part, n int) (client.WorkflowRun, error) {
	return d.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:        fmt.Sprintf("%s/click-%d", p.order.ID, n),
		TaskQueue: p.order.ID,
	}, Checkout, p.order)
}

// receive waits for the workflow's receipt.
func (p *part) receive(ctx context.Context, run client.WorkflowRun) error {
	var receipt Receipt
	if err := run.Get(ctx, &receipt); err != nil {
		return err
	}
	p.receipts = append(p.receipts, receipt)
	return nil
}

// sameReceipt reports whether every workflow returned the receipt of the one
// charge in the ledger.
func (p *part) sameReceipt() bool {
	return len(p.charges) == 1 && !slices.ContainsFunc(p.receipts, func(r Receipt) bool { return r != p.charges[0] })
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
