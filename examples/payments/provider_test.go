package main

import (
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func newTestProvider(t *testing.T) provider {
	t.Helper()
	server := httptest.NewServer(providerHandler(newLedger(), 0))
	t.Cleanup(server.Close)
	return provider{url: server.URL}
}

// Without this the demo would show nothing.
func TestProvider_ChargesTwiceWhenCalledTwice(t *testing.T) {
	t.Parallel()
	p := newTestProvider(t)
	for range 2 {
		if _, err := p.charge(t.Context(), Order{ID: "a", Cents: 5}); err != nil {
			t.Fatal(err)
		}
	}
	receipt, err := p.charge(t.Context(), Order{ID: "b", Cents: 7})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Receipt{Charge: "charge-3", Order: Order{ID: "b", Cents: 7}}); receipt != want {
		t.Errorf("receipt %+v, want %+v", receipt, want)
	}
	book, err := p.charges(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(book["a"]) != 2 || len(book["b"]) != 1 || book["b"][0] != receipt {
		t.Errorf("ledger %+v, want two charges of a and the one of b", book)
	}
	if book["a"][0].Charge == book["a"][1].Charge {
		t.Errorf("two charges have one name: %+v", book["a"])
	}
}

func TestProvider_BooksEachOfConcurrentCharges(t *testing.T) {
	t.Parallel()
	p := newTestProvider(t)
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if _, err := p.charge(t.Context(), Order{ID: "a", Cents: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	book, err := p.charges(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(book["a"]) != 20 {
		t.Errorf("%d charges, want 20", len(book["a"]))
	}
}

func TestProvider_RefusesWhatIsNoOrder(t *testing.T) {
	t.Parallel()
	p := newTestProvider(t)
	for _, order := range []Order{{}, {ID: "a"}, {Cents: 1}, {ID: "a", Cents: -1}} {
		_, err := p.charge(t.Context(), order)
		if err == nil || !strings.Contains(err.Error(), "400") {
			t.Errorf("%+v: error %v, want status 400", order, err)
		}
	}
}

func TestLedger_GivesOutCopies(t *testing.T) {
	t.Parallel()
	l := newLedger()
	l.charge(Order{ID: "a", Cents: 1})
	l.charges()["a"][0].Cents = 99
	delete(l.charges(), "a")
	if got := l.charges()["a"]; len(got) != 1 || got[0].Cents != 1 {
		t.Errorf("the ledger was changed from outside: %+v", got)
	}
}
