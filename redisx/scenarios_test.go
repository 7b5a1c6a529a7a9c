package redisx_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/redisx"
)

// The scenarios that this protocol was made for, on a real server with a lease
// of one second.
const scenarioLease = time.Second

// charger is an operation whose action takes its time and counts its charges.
type charger struct {
	*guard.Operation[int]
	charges atomic.Int64
}

func newCharger(tb testing.TB, rdb redis.UniversalClient, opts ...guard.OperationOption) *charger {
	tb.Helper()
	store, err := redisx.New(rdb, redisx.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	g, err := guard.New(store, guard.WithLease(scenarioLease))
	if err != nil {
		tb.Fatal(err)
	}
	op, err := guard.NewOperation[int](g, "payment.charge", opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return &charger{Operation: op}
}

// newKey is a key that no other test has, nor this one when it runs again.
func newKey(tb testing.TB) string {
	tb.Helper()
	return tb.Name() + "-" + rand.Text()
}

// charge calls Do with an action that takes no time.
func (c *charger) charge(ctx context.Context, key string) (int, error) {
	return c.Do(ctx, key, func(context.Context) (int, error) {
		return int(c.charges.Add(1)), nil
	})
}

// inBackground starts a charge and returns when it holds the key.
func (c *charger) inBackground(tb testing.TB, key string, d time.Duration) <-chan error {
	tb.Helper()
	running, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.Do(context.Background(), key, func(context.Context) (int, error) {
			close(running)
			time.Sleep(d)
			return int(c.charges.Add(1)), nil
		})
		done <- err
	}()
	select {
	case <-running:
	case err := <-done:
		tb.Fatalf("the action did not start: %v", err)
	}
	return done
}

// loadRecord reads the record of a key.
func loadRecord(tb testing.TB, rdb redis.UniversalClient, key string) guard.LoadReply {
	tb.Helper()
	store, err := redisx.New(rdb, redisx.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	reply, err := store.Load(tb.Context(), guard.LoadRequest{Key: guard.Key{Operation: "payment.charge", Name: key}})
	if err != nil {
		tb.Fatal(err)
	}
	return reply
}

func TestScenario_ASecondCallDuringAThreeSecondActionIsRefused(t *testing.T) {
	t.Parallel()
	rdb := realtest.SharedRedis(t).Client(t)
	c := newCharger(t, rdb, guard.OnInFlight(guard.Refuse), guard.WithRetention(time.Hour))
	key := newKey(t)
	done := c.inBackground(t, key, 3*time.Second)
	began := time.Now()
	for _, at := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond} {
		time.Sleep(time.Until(began.Add(at)))
		if _, err := c.charge(t.Context(), key); !errors.Is(err, guard.ErrInProgress) {
			t.Errorf("at %s: got %v, want refused", at, err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := c.charges.Load(); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
	got := loadRecord(t, rdb, key)
	if got.Record.Status != guard.StatusCompleted || got.Left < 59*time.Minute || got.Left > time.Hour {
		t.Errorf("the record is %s for %s, want completed for the retention of an hour", got.Record.Status, got.Left)
	}
	ttl, err := rdb.PTTL(t.Context(), "onceguard:payment.charge:"+key).Result()
	if err != nil || ttl < 59*time.Minute || ttl > time.Hour {
		t.Errorf("the server keeps it for %s (%v), want the retention", ttl, err)
	}
}

func TestScenario_ASecondCallDuringAThreeSecondActionWaits(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	c := newCharger(t, realtest.SharedRedis(t).Client(t), guard.WithWaitBound(10*time.Second))
	done := c.inBackground(t, key, 3*time.Second)
	got, err := c.charge(t.Context(), key)
	if got != 1 || err != nil || c.charges.Load() != 1 {
		t.Errorf("got %d, %v after %d charges; want the first one's result", got, err, c.charges.Load())
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCase_L1_OnRedisASecondCallerNeverRuns(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	c := newCharger(t, realtest.SharedRedis(t).Client(t), guard.OnInFlight(guard.Refuse))
	done := c.inBackground(t, key, 3*scenarioLease)
	refused := 0
	for {
		select {
		case err := <-done:
			if err != nil || c.charges.Load() != 1 {
				t.Errorf("%v after %d charges", err, c.charges.Load())
			}
			if refused < 100 {
				t.Errorf("only %d callers came by: the test looked away", refused)
			}
			return
		default:
		}
		_, err := c.charge(t.Context(), key)
		if errors.Is(err, guard.ErrInProgress) {
			refused++
		} else if err != nil {
			t.Fatalf("got %v, want refused", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestOwnerProcess is the owner of the tests below, in a process of its own.
func TestOwnerProcess(t *testing.T) {
	addr, key, ending := os.Getenv("OWNER_REDIS"), os.Getenv("OWNER_KEY"), os.Getenv("OWNER_ENDING")
	if addr == "" {
		t.Skip("started by other tests")
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	_, err := newCharger(t, rdb, guard.WithRetention(24*time.Hour)).Do(t.Context(), key,
		func(context.Context) (int, error) {
			fmt.Println("holding")
			if ending == "exit" {
				time.Sleep(2 * time.Second)
				os.Exit(7)
			}
			select {} // until it is killed
		})
	t.Errorf("the action came back: %v", err)
}

// startOwner starts an owner process and returns when it is in its action.
func startOwner(t *testing.T, addr, key, ending string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOwnerProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "OWNER_REDIS="+addr, "OWNER_KEY="+key, "OWNER_ENDING="+ending)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "holding" {
			return cmd
		}
	}
	t.Fatal("the owner process did not get to its action")
	return nil
}

func TestCase_L6_KilledOwnerHoldsWhileItLivesAndFreesTheKeyALeaseLater(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	server := realtest.SharedRedis(t)
	c := newCharger(t, server.Client(t), guard.OnInFlight(guard.Refuse))
	owner := startOwner(t, server.Addr(), key, "killed")
	for alive := time.Now(); time.Since(alive) < 2500*time.Millisecond; time.Sleep(50 * time.Millisecond) {
		if _, err := c.charge(t.Context(), key); !errors.Is(err, guard.ErrInProgress) {
			t.Fatalf("%s into a live owner's action: got %v, want refused", time.Since(alive), err)
		}
	}
	if err := owner.Process.Kill(); err != nil { // SIGKILL
		t.Fatal(err)
	}
	killed := time.Now()
	_ = owner.Wait()
	freed := waitUntilFree(t, c, key).Sub(killed)
	if freed < scenarioLease/2 || freed > scenarioLease+500*time.Millisecond {
		t.Errorf("free %s after the kill, want what was left of the lease: between two thirds of it and all", freed)
	}
	record := loadRecord(t, server.Client(t), key).Record
	if record.Attempt != 2 || record.Status != guard.StatusCompleted {
		t.Errorf("got %+v, want the second attempt's result", record)
	}
}

func waitUntilFree(t *testing.T, c *charger, key string) time.Time {
	t.Helper()
	for {
		_, err := c.charge(t.Context(), key)
		if err == nil {
			return time.Now()
		}
		if !errors.Is(err, guard.ErrInProgress) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestScenario_AnOwnerProcessThatExitsInMidActionEndsCleanly(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	server := realtest.SharedRedis(t)
	c := newCharger(t, server.Client(t), guard.WithWaitBound(10*time.Second))
	owner := startOwner(t, server.Addr(), key, "exit")
	began := time.Now()
	err := owner.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("the process ended with %v, want its own exit code 7", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s to end, want the action's two seconds", took)
	}
	if got, err := c.charge(t.Context(), key); got != 1 || err != nil {
		t.Errorf("a lease later the key must be free for one who waits: got %d, %v", got, err)
	}
}

func TestScenario_NoRenewalLandsAfterTheEnd(t *testing.T) {
	t.Parallel()
	rdb := realtest.SharedRedis(t).Client(t)
	for name, ending := range map[string]error{
		"returns": nil, "fails": errors.New("declined"), "is canceled": context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := newKey(t)
			watch := &wire{}
			mine := realtest.SharedRedis(t).Client(t)
			mine.AddHook(watch)
			c := newCharger(t, mine, guard.WithRetention(time.Hour))
			_, err := c.Do(t.Context(), key, func(context.Context) (int, error) {
				time.Sleep(2 * scenarioLease)
				return 1, ending
			})
			if !errors.Is(err, ending) {
				t.Fatal(err)
			}
			sent := watch.sent.Load()
			if sent < 7 {
				t.Errorf("%d commands in two leases, want a reserve, five renewals and the end", sent)
			}
			before := loadRecord(t, rdb, key).Record
			time.Sleep(scenarioLease * 8 / 10) // within the life of a tombstone
			if after := loadRecord(t, rdb, key).Record; !after.Updated.Equal(before.Updated) {
				t.Errorf("the record was written after the end: %s, then %s", before.Updated, after.Updated)
			}
			if later := watch.sent.Load(); later != sent {
				t.Errorf("%d commands after the end", later-sent)
			}
			if most := watch.most.Load(); most != 1 {
				t.Errorf("%d writes of one owner on the wire at once, want 1", most)
			}
		})
	}
}

func TestScenario_ARenewalOnTheWireLandsBeforeTheResult(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	server := realtest.SharedRedis(t)
	proxy := realtest.LossyProxy(t, server.Addr())
	proxied := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = proxied.Close() })
	watch := &wire{started: make(chan struct{}, 100)}
	proxied.AddHook(watch)
	c := newCharger(t, proxied, guard.WithRetention(time.Hour))
	_, err := c.Do(t.Context(), key, func(context.Context) (int, error) {
		<-watch.started // the reserve
		proxy.Delay(150 * time.Millisecond)
		<-watch.started // a renewal is on the wire now
		return 1, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if most := watch.most.Load(); most != 1 {
		t.Errorf("%d writes on the wire at once: the result did not wait for the renewal", most)
	}
	time.Sleep(300 * time.Millisecond)
	got := loadRecord(t, server.Client(t), key)
	if got.Record.Status != guard.StatusCompleted || got.Left < 59*time.Minute {
		t.Errorf("the record is %s for %s, want the result", got.Record.Status, got.Left)
	}
}

// wire counts the script calls of a client, and how many are under way at once.
type wire struct {
	sent, open, most atomic.Int64
	started          chan struct{}
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); name != "evalsha" && name != "eval" {
			return next(ctx, cmd)
		}
		w.sent.Add(1)
		w.most.Store(max(w.most.Load(), w.open.Add(1)))
		defer w.open.Add(-1)
		if w.started != nil {
			w.started <- struct{}{}
		}
		return next(ctx, cmd)
	}
}

func TestScenario_RedisAtAClosedPort(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		options redis.Options
		limit   time.Duration
	}{
		{"client as it comes, bounded by the store timeout", redis.Options{}, 500 * time.Millisecond},
		{"client as advised", redis.Options{ContextTimeoutEnabled: true, DialerRetries: 1}, 300 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			options := test.options
			options.Addr = closedPort(t)
			rdb := redis.NewClient(&options)
			t.Cleanup(func() { _ = rdb.Close() })

			open := newCharger(t, rdb)
			for range 2 {
				began := time.Now()
				if _, err := open.charge(t.Context(), "k"); err != nil {
					t.Errorf("fail open: %v", err)
				}
				t.Logf("fail open, reserve and replace: %s", time.Since(began))
			}
			if n := open.charges.Load(); n != 2 {
				t.Errorf("fail open ran %d times, want 2: nothing guards", n)
			}
			closed := newCharger(t, rdb, guard.OnStorageError(guard.FailClosed))
			began := time.Now()
			_, err := closed.charge(t.Context(), "k")
			took := time.Since(began)
			if !errors.Is(err, guard.ErrStorage) || closed.charges.Load() != 0 {
				t.Errorf("fail closed: got %v after %d charges", err, closed.charges.Load())
			}
			if took > test.limit {
				t.Errorf("fail closed took %s, want at most %s", took, test.limit)
			}
			t.Logf("fail closed: %s: %v", took, err)
		})
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return addr
}
