//go:build unix

package torture

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
)

// setup is how the operation is made.
type setup string

const (
	byDefault  setup = "default"
	atMostOnce setup = "at-most-once"
	withHook   setup = "hook"
)

// point is a place in a call at which its process may be halted.
type point string

const (
	atAnyTime point = ""        // nowhere in particular
	inAction  point = "action"  // the action runs and has sent nothing
	inRequest point = "request" // the request is on its way
	inReply   point = "reply"   // the provider has charged, the reply is on its way
	inCodec   point = "codec"   // the receipt is there and not stored
	beforeAsk point = "ask"     // the recovery hook has not asked yet
	afterAsk  point = "asked"   // the recovery hook has its answer
)

func (p point) String() string { return cmp.Or(string(p), "any time") }

// config is what a payer needs to know, in this process or in a child.
type config struct {
	Setup    setup
	Redis    string // address
	Provider string // URL
	Order    provider.Order
	Lease    time.Duration
	Name     string // of the process, for the network
	Halt     point  // where a child halts
}

// payer makes guarded charges, as an application would.
type payer struct {
	config
	at     func(point)
	runs   atomic.Int64
	rdb    *redis.Client
	client provider.Client
	guard  *guard.Guard
	charge *guard.Operation[provider.Receipt]
}

func newPayer(c config, at func(point)) (*payer, error) {
	p := &payer{
		config: c, at: at,
		rdb: redis.NewClient(&redis.Options{Addr: c.Redis, ContextTimeoutEnabled: true, DialerRetries: 1}),
		client: provider.Client{
			URL: c.Provider, HTTP: &http.Client{Transport: named{c.Name, &http.Transport{}}},
		},
	}
	store, err := redisx.New(p.rdb, redisx.Options{})
	if err != nil {
		return nil, err
	}
	p.guard, err = guard.New(store, guard.WithOwnerLabel(c.Name),
		guard.WithLease(c.Lease), guard.WithWaitBound(20*c.Lease))
	if err != nil {
		return nil, err
	}
	p.charge, err = guard.NewOperation[provider.Receipt](p.guard, "payment.charge", p.options()...)
	return p, err
}

func (p *payer) options() []guard.OperationOption {
	options := []guard.OperationOption{guard.WithCodec(haltingCodec{guard.JSON(), p.at})}
	switch p.Setup {
	case byDefault:
	case atMostOnce:
		options = append(options, guard.ForPayments(), guard.AtMostOnce())
	case withHook:
		options = append(options, guard.ForPayments(), guard.WithRecovery(p.ask))
	}
	return options
}

func (p *payer) pay(ctx context.Context) (guard.Result[provider.Receipt], error) {
	return p.charge.DoResult(ctx, p.Order.ID, func(ctx context.Context) (provider.Receipt, error) {
		p.runs.Add(1)
		p.at(inAction)
		var fence int64
		if p.Setup == withHook {
			var ok bool
			if fence, ok = guard.FenceFromContext(ctx); !ok {
				return provider.Receipt{}, errors.New("the charge runs without a reservation")
			}
		}
		return p.client.Charge(ctx, p.Order, fence)
	}, guard.WithInput(p.Order))
}

// ask is the recovery hook. The provider takes no smaller fence once it is asked with this one, so
// what it does not have by then it will never have.
func (p *payer) ask(ctx context.Context, lost guard.Evidence) (provider.Receipt, guard.Finding, error) {
	p.at(beforeAsk)
	charges, err := p.client.Charges(ctx, p.Order.ID, lost.Fence)
	p.at(afterAsk)
	switch {
	case err != nil:
		return provider.Receipt{}, guard.CannotTell, err
	case len(charges) == 0:
		return provider.Receipt{}, guard.NotFound, nil
	default:
		return charges[0], guard.Found, nil
	}
}

// close waits for what the guard still does behind its callers.
func (p *payer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = p.guard.Drain(ctx)
	_ = p.rdb.Close()
	p.client.HTTP.CloseIdleConnections()
}

// haltingCodec is at a point when a receipt is to be encoded: the action has come back,
// and its result is not stored.
type haltingCodec struct {
	guard.Codec
	at func(point)
}

func (c haltingCodec) Marshal(v any) ([]byte, error) {
	c.at(inCodec)
	return c.Codec.Marshal(v)
}

// named tells the network whose request it is: the process's, or that of the one in it
// whom the context names.
type named struct {
	name string
	http.RoundTripper
}

const nameHeader = "Actor"

type nameKey struct{}

func as(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	name, ok := r.Context().Value(nameKey{}).(string)
	if !ok {
		name = n.name
	}
	r = r.Clone(r.Context())
	r.Header.Set(nameHeader, name)
	return n.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections lets http.Client reach the transport behind.
func (n named) CloseIdleConnections() {
	if transport, ok := n.RoundTripper.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
}

// report is what a caller got.
type report struct {
	Outcome string
	Receipt provider.Receipt // if Got
	Got     bool
	Err     string
}

func reportOf(result guard.Result[provider.Receipt], err error) report {
	r := report{Outcome: string(result.How), Receipt: result.Value, Got: err == nil}
	if result.Stale {
		r.Outcome += ", stale"
	}
	if err == nil {
		return r
	}
	r.Err = err.Error()
	switch {
	case errors.Is(err, guard.ErrOutcomeUnknown):
		r.Outcome = "outcome unknown"
	case errors.Is(err, provider.ErrFenceTooOld):
		r.Outcome = "refused by the fence"
	case result.How == guard.OutcomeFailed && errors.Is(err, context.DeadlineExceeded):
		r.Outcome = "the deadline is over"
	case result.How == guard.OutcomeFailed:
		r.Outcome = "connection error"
	}
	return r
}
