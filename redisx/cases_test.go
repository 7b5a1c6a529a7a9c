package redisx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

// outage is a charger whose way to the server can be cut, and one that has
// another way.
type outage struct {
	proxy      *realtest.Proxy
	cut, other *charger
	rdb        *redis.Client // straight to the server
}

func newOutage(t *testing.T, opts ...guard.OperationOption) outage {
	t.Helper()
	server := realtest.SharedRedis(t)
	proxy := realtest.LossyProxy(t, server.Addr())
	proxied := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true, DialerRetries: 1})
	t.Cleanup(func() { _ = proxied.Close() })
	rdb := server.Client(t)
	return outage{proxy: proxy, cut: newCharger(t, proxied, opts...), other: newCharger(t, rdb, opts...), rdb: rdb}
}

func TestCase_W1_OnRedisTwoCallsFiftyMillisecondsApart(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	c := newCharger(t, realtest.SharedRedis(t).Client(t))
	done := c.inBackground(t, key, 400*time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	if got, err := c.charge(t.Context(), key); got != 1 || err != nil || c.charges.Load() != 1 {
		t.Errorf("got %d, %v after %d charges; want the first one's result", got, err, c.charges.Load())
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCase_W5_OnRedisAnotherInputIsAMismatchAlsoWhileInFlight(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	c := newCharger(t, realtest.SharedRedis(t).Client(t))
	charge := func(cents int) error {
		_, err := c.Do(t.Context(), key, func(context.Context) (int, error) {
			time.Sleep(500 * time.Millisecond)
			return int(c.charges.Add(1)), nil
		}, guard.WithInput(map[string]int{"cents": cents}))
		return err
	}
	done := make(chan error, 1)
	go func() { done <- charge(100) }()
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	if err := charge(200); !errors.Is(err, guard.ErrMismatch) || time.Since(began) > 300*time.Millisecond {
		t.Errorf("got %v after %s, want ErrMismatch at once", err, time.Since(began))
	}
	if err := <-done; err != nil || c.charges.Load() != 1 {
		t.Errorf("%v after %d charges", err, c.charges.Load())
	}
	if err := charge(200); !errors.Is(err, guard.ErrMismatch) {
		t.Errorf("after completion got %v, want ErrMismatch", err)
	}
}

func TestCase_L3_OnRedisADeletedKeyIsNotStolenBack(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	rdb := realtest.SharedRedis(t).Client(t)
	first, rival := newCharger(t, rdb), newCharger(t, rdb)
	done := first.inBackground(t, key, 1200*time.Millisecond)
	if err := rdb.Del(t.Context(), "onceguard:payment.charge:"+key).Err(); err != nil {
		t.Fatal(err)
	}
	rivalDone := rival.inBackground(t, key, 2*time.Second)
	owner := loadRecord(t, rdb, key).Record.Owner.Token
	if err := <-done; err != nil {
		t.Errorf("the first caller must get its own result: %v", err)
	}
	if got := loadRecord(t, rdb, key).Record; got.Owner.Token != owner || got.Status != guard.StatusPending {
		t.Errorf("the rival's reservation was touched: %+v", got)
	}
	if err := <-rivalDone; err != nil {
		t.Error(err)
	}
	if got := loadRecord(t, rdb, key).Record; got.Owner.Token != owner || got.Status != guard.StatusCompleted {
		t.Errorf("the rival's result is not what is stored: %+v", got)
	}
}

func TestCase_L4_OnRedisAReleaseAfterExpiryLeavesTheNewOwnerAlone(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	o := newOutage(t)
	declined := errors.New("declined")
	running, done := make(chan struct{}), make(chan error, 1)
	back := make(chan struct{})
	go func() {
		_, err := o.cut.Do(context.Background(), key, func(context.Context) (int, error) {
			close(running)
			<-back
			return 0, declined
		})
		done <- err
	}()
	<-running
	o.proxy.Down()
	rivalDone := o.takeOver(t, key)
	o.proxy.Up()
	close(back) // the first owner fails now, and would release
	if err := <-done; !errors.Is(err, declined) {
		t.Errorf("got %v", err)
	}
	if got := loadRecord(t, o.rdb, key).Record; got.Status != guard.StatusPending || got.TookOver == nil {
		t.Errorf("the new owner's reservation was touched: %+v", got)
	}
	if err := <-rivalDone; err != nil {
		t.Error(err)
	}
}

// takeOver lets the other charger wait for the key, take it over, and hold it for
// a second.
func (o outage) takeOver(t *testing.T, key string) <-chan error {
	t.Helper()
	return o.other.inBackground(t, key, time.Second)
}

func TestCase_L5_OnRedisAnOlderCompletionIsStale(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	o := newOutage(t)
	running, back := make(chan struct{}), make(chan struct{})
	older := make(chan guard.Result[int], 1)
	go func() {
		result, err := o.cut.DoResult(context.Background(), key, func(context.Context) (int, error) {
			close(running)
			<-back
			return 100, nil
		})
		if err != nil {
			t.Error(err)
		}
		older <- result
	}()
	<-running
	o.proxy.Down()
	newerDone := o.takeOver(t, key)
	o.proxy.Up()
	close(back)
	got := <-older
	if !got.Stale || got.Value != 100 {
		t.Errorf("got %+v; want the caller's own result, flagged as stale", got)
	}
	if err := <-newerDone; err != nil {
		t.Error(err)
	}
	record := loadRecord(t, o.rdb, key).Record
	if string(record.Result) != "1" || record.Fence <= got.Fence {
		t.Errorf("the record has %s with fence %d; want the newer owner's result, fence above %d",
			record.Result, record.Fence, got.Fence)
	}
}

func TestCase_R5_OnRedisACallerThatLeavesAfterTheEffectStillStores(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	rdb := realtest.SharedRedis(t).Client(t)
	c := newCharger(t, rdb)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Do(ctx, key, func(context.Context) (int, error) {
		cancel()
		return int(c.charges.Add(1)), nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := loadRecord(t, rdb, key).Record; got.Status != guard.StatusCompleted || string(got.Result) != "1" {
		t.Errorf("got %+v, want the result", got)
	}
}
