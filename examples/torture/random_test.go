//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

const (
	fewFaults     = 12  // of a run that says nothing else
	manyFaults    = 200 // from here on each point must have been met
	roundsAtATime = 3
	shortLease    = 300 * time.Millisecond
	shortest      = time.Millisecond // that a caller has
)

// The environment variables of a longer run, see `make faults`.
const (
	faultsVariable = "ONCEGUARD_FAULTS"
	seedVariable   = "ONCEGUARD_SEED"
)

// With the recovery hook and a provider that honours the fence: never two charges, never a
// lost one, whatever is killed and stopped, and when.
func TestRandom_NeverTwoChargesNeverALostOne(t *testing.T) {
	t.Parallel()
	playAtRandom(t, withHook)
}

// At most once needs no fence for that, and a person in place of the hook.
func TestRandom_AtMostOnceNeverChargesTwiceAndIsSettledByHand(t *testing.T) {
	t.Parallel()
	playAtRandom(t, atMostOnce)
}

func playAtRandom(t *testing.T, setup setup) {
	t.Helper()
	wanted := number(t, faultsVariable, fewFaults)
	seed := number(t, seedVariable, rand.Uint64()%1_000_000)
	t.Logf("%s=%d %s=%d", faultsVariable, wanted, seedVariable, seed)
	proxy := realtest.LossyProxy(t, realtest.SharedRedis(t).Addr())
	var sum tally
	var numbers atomic.Uint64
	var rounds sync.WaitGroup
	for range roundsAtATime {
		rounds.Go(func() {
			for sum.faults() < wanted && !t.Failed() {
				n := numbers.Add(1)
				r := newRound(setup, seed, n, proxy, &sum)
				if err := r.run(); err != nil {
					t.Errorf("round %d of seed %d: %v\n%s", n, seed, err, r.story())
				}
			}
		})
	}
	rounds.Wait()
	t.Log(sum.String())
	if missed := sum.missed(setup); wanted >= manyFaults && len(missed) > 0 {
		t.Errorf("no owner was killed or stopped at %q", missed)
	}
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// round is one order, some owners that meet with faults, and callers who do not give up before
// they have the receipt.
type round struct {
	config
	seed, n uint64
	sum     *tally
	begin   time.Time
	network *network
	redis   *realtest.Proxy
	here    *payer

	mu       sync.Mutex
	thrown   map[string]*dice // by actor
	gates    map[string]*gate // by name and point
	said     []string
	receipts []provider.Receipt
}

func newRound(setup setup, seed, n uint64, redis *realtest.Proxy, sum *tally) *round {
	return &round{
		config: config{
			Setup: setup, Redis: redis.Addr(), Lease: shortLease, Name: "this process",
			Order: provider.Order{ID: fmt.Sprintf("%s-%d-%d", setup, seed, n), Cents: 4999},
		},
		seed: seed, n: n, sum: sum, redis: redis, begin: time.Now(),
		thrown: map[string]*dice{}, gates: map[string]*gate{},
	}
}

func (r *round) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf("%7.3f ", time.Since(r.begin).Seconds())+fmt.Sprintf(format, args...))
}

func (r *round) story() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.said, "\n")
}

// loseAReply makes Redis do what it is asked and nobody hear of it, once.
func (r *round) loseAReply(after time.Duration) {
	<-time.After(after)
	select {
	case <-r.redis.DropReply(r.Order.ID):
		r.say("a reply of Redis is lost")
		r.sum.Add("replies of Redis lost", 1)
	case <-time.After(4 * r.Lease): // it is never asked again
	}
}

func (r *round) run() (err error) {
	r.network = newNetwork(r.takeTime, r.way(inRequest), r.way(inReply))
	defer r.network.server.Close()
	r.Provider = r.network.server.URL
	if r.here, err = newPayer(r.config, func(point) {}); err != nil {
		return err
	}
	defer r.here.close()
	if err := r.play(); err != nil {
		return err
	}
	if err := r.knownOrHeld(r.insist("the last call")); err != nil {
		return err
	}
	r.network.server.Close() // when all that was on its way has arrived
	if r.Setup == atMostOnce {
		if err := r.settleByHand(); err != nil {
			return err
		}
	}
	return r.judge()
}

// play lets the owners, the callers and the faults loose, and returns when all have come
// to their end.
func (r *round) play() (err error) {
	var actors sync.WaitGroup
	failed := make(chan error, 16)
	first := make(chan struct{}) // closed when the first owner met its fault
	d := r.dice("the round")
	for range d.oneOf(3) {
		after := d.upTo(4)
		actors.Go(func() { r.loseAReply(after) })
	}
	for i := range 1 + d.oneOf(3) {
		o, over := r.newOwner(i), func() {}
		if i == 0 {
			o.start, over = 0, func() { close(first) }
		}
		actors.Go(func() {
			<-time.After(o.start)
			failed <- o.live(over)
		})
	}
	for i := range 2 + d.oneOf(3) {
		dice, start := d.throw(4, 3)
		early := dice == 0
		actors.Go(func() {
			if !early {
				<-first
			}
			<-time.After(start)
			failed <- r.knownOrHeld(r.insist(fmt.Sprintf("caller %d", i)))
		})
	}
	actors.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return err
}

// knownOrHeld drops the error of a call that found its key held, where nobody but an operator
// can help.
func (r *round) knownOrHeld(err error) error {
	if r.Setup == atMostOnce && errors.Is(err, guard.ErrOutcomeUnknown) {
		return nil
	}
	return err
}

// judge looks at the ledger in the end.
func (r *round) judge() error {
	charges := r.network.ledger.Book()[r.Order.ID]
	r.sum.Add("rounds", 1)
	r.sum.Add("charges", len(charges))
	r.sum.Add("receipts", len(r.receipts))
	if len(charges) != 1 {
		return fmt.Errorf("%d charges, want 1: %+v", len(charges), charges)
	}
	for _, receipt := range r.receipts {
		if receipt != charges[0] {
			return fmt.Errorf("somebody got the receipt %+v, the charge is %+v", receipt, charges[0])
		}
	}
	return nil
}

// took notes what a caller got.
func (r *round) took(who string, got report) {
	r.say("%s: %s %s %s", who, got.Outcome, got.Receipt.Charge, got.Err)
	r.sum.Add("a call got: "+got.Outcome, 1)
	if got.Got {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.receipts = append(r.receipts, got.Receipt)
	}
}

// insist calls until there is a receipt, or nobody but an operator can help.
func (r *round) insist(who string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ctx, d := as(ctx, who), r.dice(who)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) { // longer: the machine may have too much to do
		result, err := r.payInTime(ctx, d)
		r.took(who, reportOf(result, err))
		if err == nil || r.knownOrHeld(err) == nil {
			return err
		}
		if unknown, ok := errors.AsType[*guard.OutcomeUnknownError](err); ok {
			pause = max(pause, unknown.RetryAfter)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s gets no receipt: %w", who, err)
		case <-time.After(pause):
		}
	}
}

// payInTime makes a call, now and then with a caller who has little time.
func (r *round) payInTime(ctx context.Context, d *dice) (guard.Result[provider.Receipt], error) {
	if hurry, has := d.throw(6, 2); hurry == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(has, shortest))
		defer cancel()
	}
	return r.here.pay(ctx)
}

// takeTime is the provider at work, now and then for longer than a third of a lease.
func (r *round) takeTime(req *http.Request) {
	if slow, length := r.dice("the work for "+req.Header.Get(nameHeader)).throw(2, 1); slow == 0 {
		<-time.After(length)
	}
}

// way is the way of requests, or of replies. Most arrive at once, some late, some never;
// the one of an owner that is to be halted there waits for that.
func (r *round) way(at point) func(*http.Request) bool {
	return func(req *http.Request) bool {
		who := req.Header.Get(nameHeader)
		r.mu.Lock()
		g := r.gates[who+string(at)]
		r.mu.Unlock()
		what := fmt.Sprintf("%s of %s, %s %s with fence %s", at, who, req.Method, req.URL.Path, req.Header.Get(provider.FenceHeader))
		if g != nil && req.Method == http.MethodPost && !g.taken.Load() {
			r.say("%s: is held", what)
			arrives := g.pass()
			r.say("%s: arrives %v", what, arrives)
			return arrives
		}
		switch luck, late := r.dice(string(at)+" of "+who).throw(12, 3); luck {
		case 0:
			<-time.After(late)
			r.say("%s: arrives late", what)
			return true
		case 1:
			r.say("%s: is lost", what)
			return false
		default:
			r.say("%s: arrives", what)
			return true
		}
	}
}
