//go:build unix

package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/onceguard/onceguard/internal/realtest"
)

// How long the provider takes at most: until it books a charge, and from then on until it answers. One request of
// five is on its way for so long that it may arrive when the provider was asked about it already.
const (
	slowBooking = 600 * time.Millisecond
	lateRequest = 2 * lease
	slowReply   = 900 * time.Millisecond
)

const (
	fenceHeader  = "Fence"
	workerHeader = "Worker"
)

// Order is what an activity charges.
type Order struct {
	ID    string
	Cents int64
}

// Receipt is the provider's word that an order was charged.
type Receipt struct {
	Charge string
	Order  Order
}

// provider books each charge that it is asked for. What it has is fences: it refuses a request with a smaller one
// than it has seen for the order, in a charge or in a look-up. So a look-up that finds nothing is final for
// whoever was before.
type provider struct {
	seed   uint64
	sum    *realtest.Tally
	server *httptest.Server

	mu     sync.Mutex
	booked int
	book   map[string][]Receipt
	floors map[string]int64
	asked  map[string]int // for an order: each request has its own dice
	open   map[string]int // charges under way, by worker
}

func newProvider(seed uint64, sum *realtest.Tally) *provider {
	p := &provider{
		seed: seed, sum: sum, book: map[string][]Receipt{}, floors: map[string]int64{},
		asked: map[string]int{}, open: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", p.serveCharge)
	mux.HandleFunc("GET /charges/{order}", p.serveLookUp)
	p.server = httptest.NewServer(mux)
	return p
}

// serveCharge books a charge whether its caller is still there or not.
func (p *provider) serveCharge(w http.ResponseWriter, r *http.Request) {
	var order Order
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	worker := r.Header.Get(workerHeader)
	d := p.arrives(order.ID, worker)
	defer p.leaves(worker)
	travel := slowBooking
	if d.IntN(5) == 0 {
		travel = lateRequest
	}
	<-time.After(d.upTo(travel))
	receipt, err := p.charge(order, fenceOf(r))
	if err == nil {
		<-time.After(d.upTo(slowReply))
	}
	answer(w, receipt, err)
}

func (p *provider) serveLookUp(w http.ResponseWriter, r *http.Request) {
	charges, err := p.lookUp(r.PathValue("order"), fenceOf(r))
	answer(w, charges, err)
}

func answer(w http.ResponseWriter, reply any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	_ = json.NewEncoder(w).Encode(reply) // fails only when the caller is gone
}

func fenceOf(r *http.Request) int64 {
	fence, _ := strconv.ParseInt(r.Header.Get(fenceHeader), 10, 64)
	return fence
}

func (p *provider) arrives(order, worker string) dice {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[order]++
	p.open[worker]++
	return newDice(p.seed, fmt.Sprintf("charge %d of %s", p.asked[order], order))
}

func (p *provider) leaves(worker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[worker]--
}

// underWay says how many charges a worker waits for.
func (p *provider) underWay(worker string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[worker]
}

func (p *provider) charge(o Order, fence int64) (Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.raise(o.ID, fence); err != nil {
		p.sum.Add(wordRefused, 1)
		return Receipt{}, err
	}
	p.booked++
	receipt := Receipt{Charge: fmt.Sprintf("charge-%d", p.booked), Order: o}
	p.book[o.ID] = append(p.book[o.ID], receipt)
	return receipt, nil
}

func (p *provider) lookUp(order string, fence int64) ([]Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum.Add("look-ups", 1)
	if err := p.raise(order, fence); err != nil {
		return nil, err
	}
	return slices.Clone(p.book[order]), nil
}

// raise takes note of a fence, or refuses it. Without a fence there is nothing to refuse.
func (p *provider) raise(order string, fence int64) error {
	if floor := p.floors[order]; fence != 0 && fence < floor {
		return fmt.Errorf("the fence %d is too old, %d was here before", fence, floor)
	}
	p.floors[order] = max(p.floors[order], fence)
	return nil
}

// close waits until all requests are answered, and returns the book.
func (p *provider) close() map[string][]Receipt {
	p.server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.book)
}

// caller is the provider's client.
type caller struct{ url, worker string }

func (c caller) charge(ctx context.Context, o Order, fence int64) (receipt Receipt, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return Receipt{}, err
	}
	err = c.call(ctx, http.MethodPost, "/charges", fence, body, &receipt)
	return receipt, err
}

func (c caller) lookUp(ctx context.Context, order string, fence int64) (charges []Receipt, err error) {
	err = c.call(ctx, http.MethodGet, "/charges/"+order, fence, nil, &charges)
	return charges, err
}

func (c caller) call(ctx context.Context, method, path string, fence int64, body []byte, reply any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set(workerHeader, c.worker)
	if fence != 0 {
		req.Header.Set(fenceHeader, strconv.FormatInt(fence, 10))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(text))
	}
	return json.NewDecoder(resp.Body).Decode(reply)
}
