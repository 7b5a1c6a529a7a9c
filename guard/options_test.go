package guard_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func TestCase_K3_DurationsThatCannotBeMeantAreErrorsFromTheConstructor(t *testing.T) {
	for _, d := range []time.Duration{0, -1, -5 * time.Second, 1, 1 << 62} {
		for name, option := range map[string]guard.Option{
			"lease": guard.WithLease(d), "retention": guard.WithRetention(d),
		} {
			t.Run(name+" "+d.String(), func(t *testing.T) {
				if _, err := guard.New(guard.NewMemoryStore(), option); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("New: got %v, want an error that names the %s", err, name)
				}
				g, err := guard.New(guard.NewMemoryStore())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := guard.NewOperation[int](g, "x", option); err == nil || !strings.Contains(err.Error(), d.String()) {
					t.Errorf("NewOperation: got %v, want an error that says %s", err, d)
				}
			})
		}
	}
}

func TestNewOperation_SaysEveryFaultAtOnceWithItsNumbers(t *testing.T) {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	_, err = guard.NewOperation[int](g, "",
		guard.WithLease(50*time.Millisecond), guard.WithStoreTimeout(40*time.Millisecond),
		guard.WithRetention(-time.Second), guard.WithWaitBound(-1), guard.WithMaxResultBytes(0),
		guard.WithCodec(nil), guard.OnStorageError("shrug"), guard.OnInFlight("hope"), nil)
	if err == nil {
		t.Fatal("want an error")
	}
	for _, part := range []string{
		"name: it is empty", "lease 50ms: shorter than 3 × store timeout 40ms", "retention -1s",
		"wait bound -1ns", "result size limit in bytes 0", "codec is nil", `"shrug"`, `"hope"`, "option 8 is nil",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
}

func TestNew_BadStoresAndOptions(t *testing.T) {
	if _, err := guard.New(nil); err == nil {
		t.Error("a nil store must be an error")
	}
	if _, err := guard.New((*guard.MemoryStore)(nil)); err == nil {
		t.Error("a typed nil store must be an error")
	}
	if _, err := guard.New(guard.NewMemoryStore(), guard.WithOwnerLabel("a\nb")); err == nil {
		t.Error("a label with control characters must be an error")
	}
	if _, err := guard.NewOperation[int](&guard.Guard{}, "x"); err == nil {
		t.Error("a guard made by hand must be an error")
	}
	if err := (*guard.Guard)(nil).Drain(t.Context()); err != nil {
		t.Errorf("Drain of no guard: %v", err)
	}
	if _, err := guard.New(guard.NewMemoryStore(), nil); err == nil {
		t.Error("a nil option must be an error")
	}
	if _, err := guard.NewOperation[int](nil, "x"); err == nil {
		t.Error("a nil guard must be an error")
	}
}

func TestOptions_OperationOverridesGuard(t *testing.T) {
	rec := &infoRecorder{}
	g, err := guard.New(guard.NewMemoryStore(), guard.WithObserver(rec),
		guard.WithLease(time.Minute), guard.OnStorageError(guard.FailClosed), guard.OnInFlight(guard.Refuse))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.NewOperation[int](g, "x", guard.WithLease(time.Hour), guard.WithRetention(time.Second)); err != nil {
		t.Fatalf("a retention shorter than the lease is allowed: %v", err)
	}
	want := guard.OperationInfo{
		Name: "x", Store: "memory", Lease: time.Hour, Retention: time.Second,
		OnStorageError: guard.FailClosed, OnInFlight: guard.Refuse,
	}
	if rec.info != want {
		t.Errorf("got %+v, want %+v", rec.info, want)
	}
}

type infoRecorder struct {
	recorder
	info guard.OperationInfo
}

func (r *infoRecorder) Operation(info guard.OperationInfo) guard.OperationObserver {
	r.info = info
	return &r.recorder
}

func TestOptions_AShortLeaseBringsItsStoreTimeout(t *testing.T) {
	for _, lease := range []time.Duration{10 * time.Millisecond, time.Second, 24 * time.Hour} {
		if _, err := guard.New(guard.NewMemoryStore(), guard.WithLease(lease)); err != nil {
			t.Errorf("lease %s alone must be fine: %v", lease, err)
		}
	}
}

func TestNewOperation_OptionsWithoutMeaningInTheirModeAreErrors(t *testing.T) {
	g, err := guard.New(guard.NewMemoryStore(), guard.WithMaxHold(time.Hour), guard.WithWaitBound(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.NewOperation[int](g, "defaults", guard.OnInFlight(guard.Run)); err != nil {
		t.Errorf("a default of the guard that does not suit an operation is no fault: %v", err)
	}
	for name, opts := range map[string][]guard.OperationOption{
		"WithWaitBound":    {guard.OnInFlight(guard.Refuse), guard.WithWaitBound(time.Second)},
		"WithMaxHold":      {guard.OnInFlight(guard.Run), guard.WithMaxHold(time.Second)},
		"WithCancelOnLost": {guard.OnInFlight(guard.Run), guard.WithCancelOnLost()},
		"KeepReserved":     {guard.KeepReserved(nil)},
		"WithEnabled":      {guard.WithEnabled(nil)},
	} {
		if _, err := guard.NewOperation[int](g, "x", opts...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
	}
}

func TestNewOperation_ResultTypesThatJSONCannotReadBackAreErrors(t *testing.T) {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	type hidden struct{ id string }
	type tree struct {
		Children []*tree
		At       time.Time
		Any      any
		Link     *url.URL
		Err      error // nil is written and read
	}
	type locked struct {
		sync.Mutex
		ID string
	}
	_ = hidden{id: ""}.id
	wantTypeError[chan int](t, g, true)
	wantTypeError[func()](t, g, true)
	wantTypeError[error](t, g, true)
	wantTypeError[map[string][]error](t, g, true)
	wantTypeError[*hidden](t, g, true)
	wantTypeError[locked](t, g, false)
	wantTypeError[url.URL](t, g, false)
	wantTypeError[*big.Int](t, g, false)
	wantTypeError[json.RawMessage](t, g, false)
	wantTypeError[hidden](t, g, true)
	wantTypeError[tree](t, g, false)
	wantTypeError[struct{}](t, g, false)
	wantTypeError[any](t, g, false)
	wantTypeError[*time.Time](t, g, false)
	wantTypeError[selfPointer](t, g, false) // of no use, but no reason never to return
}

type selfPointer *selfPointer

func wantTypeError[T any](t *testing.T, g *guard.Guard, want bool) {
	t.Helper()
	var zero T
	name := fmt.Sprintf("%T", &zero)
	if _, err := guard.NewOperation[T](g, name); (err != nil) != want {
		t.Errorf("%s: got %v, want an error: %t", name, err, want)
	}
}

func TestNewOperation_OneNameHasItsKeysHashedOrNot(t *testing.T) {
	t.Parallel()
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.NewOperation[int](g, "payment.charge"); err != nil {
		t.Fatal(err)
	}
	_, err = guard.NewOperation[int](g, "payment.charge", guard.WithHashedKeys())
	if err == nil || !strings.Contains(err.Error(), "give both the same options, or use another name") {
		t.Errorf("got %v, want that one would run what the other has done", err)
	}
}

func TestNewOperation_OneNameHasOneResultType(t *testing.T) {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := guard.NewOperation[int](g, "x"); err != nil {
			t.Errorf("the same operation twice is fine: %v", err)
		}
	}
	if _, err := guard.NewOperation[string](g, "x"); err == nil || !strings.Contains(err.Error(), "int") {
		t.Errorf("got %v, want an error that names the first type", err)
	}
}
