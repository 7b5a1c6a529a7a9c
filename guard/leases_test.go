package guard_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// What this process holds, for a page or a log of one's own.
func ExampleGuard_Leases() {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		fmt.Println(err)
		return
	}
	charge, err := guard.NewOperation[string](g, "payment.charge")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = charge.Do(context.Background(), "order-4711", func(context.Context) (string, error) {
		for _, lease := range g.Leases() {
			fmt.Println(lease.Operation, lease.KeyHash, lease.Lease, lease.Left > 0, lease.Lost)
		}
		return "receipt-1", nil
	})
	fmt.Println(len(g.Leases()), err)
	// Output:
	// payment.charge 5a9e79d16c84b1aa 30s true false
	// 0 <nil>
}

// leaseLab is a guard whose leases are looked at.
type leaseLab struct {
	*testing.T
	g     *guard.Guard
	store *faultyStore
}

func newLeaseLab(t *testing.T) *leaseLab {
	t.Helper()
	store := newFaultyStore()
	g, err := guard.New(store, guard.WithObserver(&recorder{}), guard.WithOwnerLabel("host/1"))
	if err != nil {
		t.Fatal(err)
	}
	return &leaseLab{t, g, store}
}

func (l *leaseLab) op(name string, opts ...guard.OperationOption) *guard.Operation[int] {
	l.Helper()
	op, err := guard.NewOperation[int](l.g, name, opts...)
	if err != nil {
		l.Fatal(err)
	}
	return op
}

// begin runs an action that lasts until it is told to end, in a bubble.
func (l *leaseLab) begin(op *guard.Operation[int], key string) (end func()) {
	l.Helper()
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = op.Do(l.Context(), key, func(context.Context) (int, error) {
			<-ending
			return 1, nil
		})
	}()
	synctest.Wait()
	return sync.OnceFunc(func() {
		close(ending)
		<-ended
	})
}

// keys are the keys of the leases in their order.
func (l *leaseLab) keys() (keys []string) {
	for _, lease := range l.g.Leases() {
		keys = append(keys, lease.Key.Name)
	}
	return keys
}

func (l *leaseLab) want(keys ...string) {
	l.Helper()
	if got := l.keys(); !slices.Equal(got, keys) {
		l.Errorf("leases of %q, want %q", got, keys)
	}
}

func (l *leaseLab) only() guard.LeaseInfo {
	l.Helper()
	leases := l.g.Leases()
	if len(leases) != 1 {
		l.Fatalf("leases %+v, want one", leases)
	}
	return leases[0]
}

func TestLeases_TellsWhoHoldsAKeySinceWhenAndWhetherItIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseLab(t)
		began := time.Now()
		end := l.begin(l.op("payment.charge", guard.WithLease(30*time.Second)), "order-1")
		defer end()
		time.Sleep(14 * time.Second) // renewed once, 10 s after the reserve

		got := l.only()
		key := guard.Key{Operation: "payment.charge", Name: "order-1"}
		want := guard.LeaseInfo{
			Operation: "payment.charge", Key: key, KeyHash: guard.KeyHash(key), Owner: "host/1",
			Fence: load(t, l.store, "order-1").Record.Fence, Attempt: 1,
			Since: began, RenewedAt: began.Add(10 * time.Second), Lease: 30 * time.Second, Left: 26 * time.Second,
			TraceID: "0af7651916cd43dd8448eb211c80319c",
		}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		end()
		l.want()
		if l.g.OwnerLabel() != "host/1" {
			t.Errorf("the guard calls itself %q", l.g.OwnerLabel())
		}
	})
}

// A renewal fails for a and b from some time on, c is renewed well, and d has a lease so short
// that it always has the least time left.
func TestLeases_TheMostEndangeredComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseLab(t)
		for name, lease := range map[string]time.Duration{"c": 20 * time.Minute, "d": 3 * time.Second} {
			defer l.begin(l.op(name, guard.WithLease(lease)), name)()
		}
		long := l.op("ab", guard.WithLease(30*time.Second))
		defer l.begin(long, "a")()
		time.Sleep(5 * time.Second)
		defer l.begin(long, "b")()
		time.Sleep(500 * time.Millisecond) // d has 2.5 s of 3 s left, b 29.5 s of 30 s
		l.want("a", "d", "b", "c")
		time.Sleep(2 * time.Second)

		l.store.set(fails, guard.PhaseRenew)
		time.Sleep(20 * time.Second)
		l.want("d", "a", "b", "c") // of d the loss is reported
		if d := l.g.Leases()[0]; !d.Lost || d.Left >= 0 {
			t.Errorf("the lease of d is over: %+v", d)
		}
		time.Sleep(5 * time.Second)
		leases := l.g.Leases()
		if !leases[1].Lost || leases[1].Key.Name != "a" || leases[2].Lost || leases[2].Left != 2500*time.Millisecond {
			t.Errorf("the lease of a is over and b has 2.5 s left: %+v", leases)
		}

		// What was lost is still the first when it is renewed again.
		l.store.set(nil, guard.PhaseRenew)
		time.Sleep(7600 * time.Millisecond) // that of a was 0.1 s ago
		leases = l.g.Leases()
		share := func(i int) float64 { return float64(leases[i].Left) / float64(leases[i].Lease) }
		if !leases[0].Lost || !leases[1].Lost || leases[2].Lost || leases[3].Lost || share(1) <= share(2) {
			t.Errorf("a and d were lost and live again: %+v", leases)
		}
	})
}

func TestLeases_ATakeoverTellsFromWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseLab(t)
		_, err := l.store.Reserve(t.Context(), guard.ReserveRequest{
			Key:   guard.Key{Operation: "payment.charge", Name: "order-1"},
			Owner: guard.Owner{Token: "dead", Label: "dead/7"}, Lease: time.Second, Retention: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		defer l.begin(l.op("payment.charge"), "order-1")()
		if got := l.only(); !got.TookOver || got.PreviousOwner != "dead/7" || got.Attempt != 2 || got.Dispatched {
			t.Errorf("got %+v, want a takeover from dead/7 in the second attempt", got)
		}
	})
}

func TestLeases_TellsWhatIsDispatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseLab(t)
		at := l.op("at.once", guard.OnStorageError(guard.FailClosed), guard.AtMostOnce())
		end := l.begin(at, "k")
		if !l.only().Dispatched {
			t.Error("a run at most once is dispatched from the reserve on")
		}
		end()
		marks := l.op("marks", guard.OnStorageError(guard.FailClosed), guard.AtMostOnce(), guard.MarkDispatch())
		_, err := marks.Do(t.Context(), "k", func(ctx context.Context) (int, error) {
			if l.only().Dispatched {
				t.Error("nothing is marked yet")
			}
			if err := guard.Dispatched(ctx); err != nil {
				return 0, err
			}
			if !l.only().Dispatched {
				t.Error("the run is marked")
			}
			l.store.set(func(ctx context.Context, call func(context.Context) error) error {
				if !l.only().Dispatched {
					t.Error("the run is marked, and its end is being written")
				}
				return call(ctx)
			}, guard.PhaseReplace)
			return 1, nil
		})
		if err != nil || l.store.called(guard.PhaseReplace) == 0 {
			t.Error(err)
		}
	})
}

func TestLeases_ARecoveryHoldsOneToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseLab(t)
		asked := false
		op := l.op("payment.charge", guard.OnStorageError(guard.FailClosed), guard.WithSettleTime(0),
			guard.WithRecovery(func(context.Context, guard.Evidence) (int, guard.Finding, error) {
				asked = true
				if got := l.only(); !got.TookOver || !got.Dispatched || got.PreviousOwner != "dead/7" {
					t.Errorf("got %+v, want the takeover of a dispatched run", got)
				}
				return 7, guard.Found, nil
			}))
		_, err := l.store.Reserve(t.Context(), guard.ReserveRequest{
			Key:   guard.Key{Operation: "payment.charge", Name: "order-1"},
			Owner: guard.Owner{Token: "dead", Label: "dead/7"}, Lease: time.Second, Retention: time.Hour,
			Dispatched: true, Recovers: true, HoldRetention: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if got, err := op.Do(t.Context(), "order-1", slow(0).act); got != 7 || err != nil || !asked {
			t.Errorf("got %d, %v, asked %v", got, err, asked)
		}
		l.want()
	})
}

func TestLeases_NoneIsLeftHoweverTheActionEnds(t *testing.T) {
	l := newLeaseLab(t)
	op := l.op("payment.charge")
	for name, act := range map[string]func(){
		"error": func() {},
		"panic": func() { panic("boom") },
		"exit":  runtime.Goexit,
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }()
			_, _ = op.Do(t.Context(), name, func(context.Context) (int, error) {
				l.want(name)
				act()
				return 0, errStoreDown
			})
		}()
		<-done
		l.want()
	}
}

func TestLeases_WhatRunsWithoutAReservationHasNone(t *testing.T) {
	l := newLeaseLab(t)
	l.store.set(fails, guard.PhaseReserve)
	for name, op := range map[string]*guard.Operation[int]{
		"storage":  l.op("storage"),
		"run":      l.op("run", guard.OnInFlight(guard.Run)),
		"disabled": l.op("disabled", guard.WithEnabled(func() bool { return false })),
	} {
		if _, err := op.Do(t.Context(), name, func(context.Context) (int, error) {
			l.want()
			return 1, nil
		}); err != nil {
			t.Error(err)
		}
	}
}

func TestLeases_ANilGuardHasNone(t *testing.T) {
	var g *guard.Guard
	key := guard.Key{Operation: "payment.charge", Name: "order-1"}
	if g.Leases() != nil || g.OwnerLabel() != "" || g.KeyHash(key) != guard.KeyHash(key) {
		t.Errorf("got %+v, %q, %q", g.Leases(), g.OwnerLabel(), g.KeyHash(key))
	}
}

// Calls come and go while others look: with the race detector this proves that nothing is read
// that is written meanwhile.
func TestLeases_MayBeLookedAtWhileCallsComeAndGo(t *testing.T) {
	l := newLeaseLab(t)
	op := l.op("payment.charge", guard.WithLease(30*time.Millisecond), guard.OnStorageError(guard.FailClosed), guard.AtMostOnce(), guard.MarkDispatch())
	stop := make(chan struct{})
	var looking, calling sync.WaitGroup
	for range 2 {
		looking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, lease := range l.g.Leases() {
					if lease.Operation != "payment.charge" || lease.Fence == 0 || lease.Lease != 30*time.Millisecond {
						t.Errorf("half a lease: %+v", lease)
					}
				}
			}
		})
	}
	for worker := range 4 {
		calling.Go(func() {
			for i := range 25 {
				_, _ = op.Do(t.Context(), fmt.Sprint(worker, "/", i), func(ctx context.Context) (int, error) {
					time.Sleep(time.Duration(i) * time.Millisecond) // up to two renewals
					return i, guard.Dispatched(ctx)
				})
			}
		})
	}
	calling.Wait()
	close(stop)
	looking.Wait()
	l.want()
}

func TestLeases_ManyComeAndGoInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseLab(t)
		op := l.op("payment.charge")
		var ends []func()
		var all []string
		for i := range 5 {
			ends, all = append(ends, l.begin(op, strconv.Itoa(i))), append(all, strconv.Itoa(i))
			time.Sleep(time.Second)
		}
		l.want(all...)
		for _, i := range []int{2, 0, 4, 1, 3} { // from the middle, both ends, and the last one
			ends[i]()
			all = slices.DeleteFunc(all, func(key string) bool { return key == strconv.Itoa(i) })
			l.want(all...)
		}
	})
}
