//go:build unix

package torture

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/onceguard/onceguard/examples/internal/provider"
)

// network is what lies between the callers and a provider of their own. It has a
// request in full before it passes it on: the caller may be dead by then.
type network struct {
	ledger *provider.Ledger
	server *httptest.Server
	open   sync.WaitGroup

	// work is the time that the provider takes, before it books a charge and again after it.
	work func(*http.Request)
	// request and reply return when the one or the other is to arrive, and false when it never
	// does.
	request, reply func(*http.Request) bool
}

func newNetwork(work func(*http.Request), request, reply func(*http.Request) bool) *network {
	n := &network{ledger: provider.NewLedger(), work: work, request: request, reply: reply}
	n.server = httptest.NewServer(n)
	return n
}

func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.open.Add(1)
	defer n.open.Done()
	body, err := io.ReadAll(r.Body)
	if err != nil || !n.request(r) {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	reply := httptest.NewRecorder()
	provider.Handler(n.ledger, provider.Options{
		Before: func(provider.Order) { n.work(r) },
		Booked: func(provider.Receipt) { n.work(r) },
	}).ServeHTTP(reply, r)
	if !n.reply(r) {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(reply.Code)
	_, _ = w.Write(reply.Body.Bytes())
}

// settle waits until no request is on its way. There must be nobody who sends more.
func (n *network) settle() { n.open.Wait() }

// gate holds the first that passes, until it is decided what becomes of it.
type gate struct {
	taken   atomic.Bool
	decided sync.Once
	reached chan struct{}
	arrives chan bool
}

func newGate() *gate { return &gate{reached: make(chan struct{}), arrives: make(chan bool, 1)} }

// pass lets everything through a nil gate.
func (g *gate) pass() bool {
	if g == nil || g.taken.Swap(true) {
		return true
	}
	close(g.reached)
	return <-g.arrives
}

// decide counts once.
func (g *gate) decide(arrives bool) { g.decided.Do(func() { g.arrives <- arrives }) }
