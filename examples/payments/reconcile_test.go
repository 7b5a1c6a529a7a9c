package main

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/temporalx"
)

// unreliable is a provider that loses its first reply and then knows nothing for a
// while.
type unreliable struct {
	http.Handler
	books bool // also the charge whose reply is lost
	mu    sync.Mutex
	lost  string // the fence of the request whose reply is lost
	looks int    // that get no answer yet
	asked int    // how often it was asked to charge
}

func (u *unreliable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case r.Method == http.MethodPost:
		if u.asked++; u.asked > 1 {
			break
		}
		u.lost = r.Header.Get(provider.FenceHeader)
		if u.books {
			u.Handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler) // the connection ends without a reply
	case u.looks > 0:
		u.looks--
		http.Error(w, "the book is closed", http.StatusServiceUnavailable)
		return
	}
	u.Handler.ServeHTTP(w, r)
}

// fence is that of the request whose reply was lost.
func (u *unreliable) fence(t *testing.T) int64 {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	fence, err := strconv.ParseInt(u.lost, 10, 64)
	if err != nil {
		t.Fatalf("the fence of the lost request: %v", err)
	}
	return fence
}

// startGuardedWorker starts a worker on real servers, in this process.
func startGuardedWorker(t *testing.T, p provider.Client) client.Client {
	t.Helper()
	store, err := redisx.New(realtest.SharedRedis(t).Client(t), redisx.Options{Prefix: "payments-" + rand.Text()})
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGuard(store)
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := guardCharges(g, p)
	if err != nil {
		t.Fatal(err)
	}
	c := realtest.SharedTemporal(t).Client()
	w := worker.New(c, t.Name(), worker.Options{Interceptors: []interceptor.WorkerInterceptor{guarded}})
	w.RegisterWorkflow(Checkout)
	w.RegisterWorkflow(CheckoutAndReconcile)
	w.RegisterActivity(&Activities{provider: p, guarded: guarded})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return c
}

func checkOut(t *testing.T, c client.Client, workflow any, order Order) (receipt Receipt) {
	t.Helper()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: t.Name()}, workflow, order)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Get(t.Context(), &receipt); err != nil {
		t.Fatal(err)
	}
	return receipt
}

func TestCheckoutAndReconcile_SettlesWhatNobodyKnowsAndGoesOn(t *testing.T) {
	t.Parallel()
	for name, books := range map[string]bool{"the charge was made": true, "there was no charge": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The first look is the hook's, the others are reconciliations that fail.
			u := &unreliable{Handler: provider.Handler(provider.NewLedger(), provider.Options{}), books: books, looks: 3}
			p := serving(t, u)
			c := startGuardedWorker(t, p)
			order := Order{ID: "o-1", Cents: 4999}
			receipt := checkOut(t, c, CheckoutAndReconcile, order)
			if again := checkOut(t, c, Checkout, order); receipt.Charge != "charge-1" || again != receipt {
				t.Errorf("receipts %+v and %+v, want that of the one charge", receipt, again)
			}
			if _, err := p.Charge(t.Context(), order, u.fence(t)); !errors.Is(err, provider.ErrFenceTooOld) {
				t.Errorf("the lost request, if it came now: error %v, want that its fence is too old", err)
			}
			booked, err := p.Charges(t.Context(), order.ID, 0)
			if err != nil || len(booked) != 1 {
				t.Errorf("booked %+v, error %v, want one charge", booked, err)
			}
			want := 2 // the second is that of this test
			if !books {
				want++
			}
			if u.mu.Lock(); u.asked != want {
				t.Errorf("asked to charge %d times, want %d", u.asked, want)
			}
			u.mu.Unlock()
		})
	}
}

// The key may have another owner, or another reconciliation, meanwhile.
func TestReconcile_LeavesAloneWhatSomebodyElseHasSettled(t *testing.T) {
	t.Parallel()
	for name, largest := range map[string]int64{"in the store": 1, "at the provider": 1 << 62} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, store := sound(t), guard.NewMemoryStore()
			env := charging(t, store, p)
			if _, err := env.ExecuteActivity("ChargeCard", Order{ID: "o-1", Cents: 1}); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Charges(t.Context(), "o-2", largest); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"o-1", "o-2"} {
				unknown := temporalx.OutcomeUnknown{Operation: "ChargeCard", Key: key, Fence: 1 << 60}
				if _, err := env.ExecuteActivity("Reconcile", unknown); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
			found, err := store.Load(t.Context(), guard.LoadRequest{Key: guard.Key{Operation: "ChargeCard", Name: "o-1"}})
			if err != nil || found.Record.Status != guard.StatusCompleted || found.Record.Resolved != nil {
				t.Errorf("record %+v, error %v, want the completed one untouched", found.Record, err)
			}
		})
	}
}
