package provider_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/onceguard/onceguard/examples/internal/provider"
)

func newProvider(t *testing.T, options provider.Options) provider.Client {
	t.Helper()
	server := httptest.NewServer(provider.Handler(provider.NewLedger(), options))
	t.Cleanup(server.Close)
	return provider.Client{URL: server.URL, HTTP: server.Client()}
}

// Without this the demo would show nothing.
func TestProvider_ChargesTwiceWhenCalledTwice(t *testing.T) {
	t.Parallel()
	p := newProvider(t, provider.Options{})
	for range 2 {
		if _, err := p.Charge(t.Context(), provider.Order{ID: "a", Cents: 5}, 0); err != nil {
			t.Fatal(err)
		}
	}
	receipt, err := p.Charge(t.Context(), provider.Order{ID: "b", Cents: 7}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := (provider.Receipt{Charge: "charge-3", Order: provider.Order{ID: "b", Cents: 7}}); receipt != want {
		t.Errorf("receipt %+v, want %+v", receipt, want)
	}
	book, err := p.Book(t.Context())
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
	p := newProvider(t, provider.Options{})
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if _, err := p.Charge(t.Context(), provider.Order{ID: "a", Cents: 1}, 7); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	wantCharges(t, p, "a", 0, 20)
}

func TestProvider_RefusesWhatIsNoOrder(t *testing.T) {
	t.Parallel()
	p := newProvider(t, provider.Options{})
	for _, order := range []provider.Order{{}, {ID: "a"}, {Cents: 1}, {ID: "a", Cents: -1}} {
		_, err := p.Charge(t.Context(), order, 0)
		wantStatus(t, err, http.StatusBadRequest)
	}
	_, err := p.Charge(t.Context(), provider.Order{ID: "a", Cents: 1}, -1)
	wantStatus(t, err, http.StatusBadRequest)
}

func TestProvider_RefusesAFenceThatIsTooOld(t *testing.T) {
	t.Parallel()
	p := newProvider(t, provider.Options{})
	order := provider.Order{ID: "a/b?c", Cents: 1}
	if _, err := p.Charge(t.Context(), order, 10); err != nil {
		t.Fatal(err)
	}
	_, err := p.Charge(t.Context(), order, 9)
	wantStatus(t, err, http.StatusConflict)
	if !errors.Is(err, provider.ErrFenceTooOld) || errors.Is(err, provider.ErrDeclined) {
		t.Errorf("error %v, want one that is ErrFenceTooOld and not ErrDeclined", err)
	}
	_, err = p.Charges(t.Context(), order.ID, 9)
	wantStatus(t, err, http.StatusConflict)
	for _, fence := range []int64{10, 11, 0} { // the same, a larger one, and none
		if _, err := p.Charge(t.Context(), order, fence); err != nil {
			t.Errorf("fence %d: %v", fence, err)
		}
	}
	wantCharges(t, p, order.ID, 0, 4)
	if _, err := p.Charge(t.Context(), provider.Order{ID: "b", Cents: 1}, 1); err != nil {
		t.Errorf("another order: %v", err)
	}
}

// Whoever asked and found nothing may run: what was before it must not arrive later.
func TestProvider_NotFoundIsFinalForWhoeverWasBefore(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	p := newProvider(t, provider.Options{Before: func(provider.Order) {
		close(arrived)
		<-goOn
	}})
	var late error
	var caller sync.WaitGroup
	caller.Go(func() { _, late = p.Charge(t.Context(), provider.Order{ID: "a", Cents: 1}, 10) })
	<-arrived
	wantCharges(t, p, "a", 11, 0)
	close(goOn)
	caller.Wait()
	if !errors.Is(late, provider.ErrFenceTooOld) {
		t.Errorf("the late request: error %v, want ErrFenceTooOld", late)
	}
	wantCharges(t, p, "a", 11, 0)
}

func TestProvider_BooksForACallerThatHasLeft(t *testing.T) {
	t.Parallel()
	booked, goOn := make(chan struct{}), make(chan struct{})
	p := newProvider(t, provider.Options{Booked: func(provider.Receipt) {
		close(booked)
		<-goOn
	}})
	var caller sync.WaitGroup
	caller.Go(func() { _, _ = p.Charge(t.Context(), provider.Order{ID: "a", Cents: 1}, 0) })
	<-booked
	wantCharges(t, p, "a", 0, 1)
	close(goOn)
	caller.Wait()
}

func TestProvider_DeclinesACard(t *testing.T) {
	t.Parallel()
	p := newProvider(t, provider.Options{})
	_, err := p.Charge(t.Context(), provider.Order{ID: "a", Cents: provider.DeclinedCents}, 0)
	wantStatus(t, err, http.StatusPaymentRequired)
	if !errors.Is(err, provider.ErrDeclined) || errors.Is(err, provider.ErrFenceTooOld) {
		t.Errorf("error %v, want one that is ErrDeclined and not ErrFenceTooOld", err)
	}
	wantCharges(t, p, "a", 0, 0)
}

func TestClient_ReturnsTransportErrorsAsTheyAre(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(server.Close)
	_, err := provider.Client{URL: server.URL}.Charge(t.Context(), provider.Order{ID: "a", Cents: 1}, 1)
	var status *provider.Error
	if err == nil || errors.As(err, &status) || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("error %v, want the connection's", err)
	}
}

func TestLedger_GivesOutCopies(t *testing.T) {
	t.Parallel()
	l := provider.NewLedger()
	if _, err := l.Charge(provider.Order{ID: "a", Cents: 1}, 0); err != nil {
		t.Fatal(err)
	}
	l.Book()["a"][0].Cents = 99
	delete(l.Book(), "a")
	charges, err := l.Charges("a", 0)
	if err != nil {
		t.Fatal(err)
	}
	charges[0].Cents = 98
	if got := l.Book()["a"]; len(got) != 1 || got[0].Cents != 1 {
		t.Errorf("the ledger was changed from outside: %+v", got)
	}
}

func wantCharges(t *testing.T, p provider.Client, order string, fence int64, want int) {
	t.Helper()
	charges, err := p.Charges(t.Context(), order, fence)
	if err != nil {
		t.Fatal(err)
	}
	if len(charges) != want {
		t.Errorf("%d charges of %s, want %d: %+v", len(charges), order, want, charges)
	}
}

func wantStatus(t *testing.T, err error, want int) {
	t.Helper()
	var got *provider.Error
	if !errors.As(err, &got) || got.Status != want {
		t.Errorf("error %v, want status %d", err, want)
	}
}
