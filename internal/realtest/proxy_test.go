package realtest_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/internal/realtest"
)

// proxied is a Redis client that goes through the proxy, and repeats nothing.
func proxied(t *testing.T) (*realtest.Proxy, *redis.Client) {
	t.Helper()
	proxy := realtest.LossyProxy(t, realtest.Redis(t).Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return proxy, client
}

func TestLossyProxy_LostReplyIsEOFAfterTheServerApplied(t *testing.T) {
	t.Parallel()
	proxy, client := proxied(t)
	dropped := proxy.DropReply("incr")

	if err := client.Set(t.Context(), "other", 1, 0).Err(); err != nil {
		t.Fatalf("another command: %v", err)
	}
	if err := client.Incr(t.Context(), "n").Err(); !errors.Is(err, io.EOF) {
		t.Errorf("want EOF, got %v", err)
	}
	<-dropped
	if n, err := client.Incr(t.Context(), "n").Result(); err != nil || n != 2 {
		t.Errorf("the lost command was applied once, so this is the second: got %d, %v", n, err)
	}
}

func TestLossyProxy_GoRedisRepeatsALostCommandByDefault(t *testing.T) {
	t.Parallel()
	proxy := realtest.LossyProxy(t, realtest.Redis(t).Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = client.Close() })

	proxy.DropReply("incr")
	proxy.DropReply("incr")
	if n, err := client.Incr(t.Context(), "n").Result(); err != nil || n != 3 {
		t.Errorf("two replies lost, so applied three times: got %d, %v", n, err)
	}
}

func TestLossyProxy_CutClosesWhatIsOpenOnly(t *testing.T) {
	t.Parallel()
	proxy, client := proxied(t)
	sub := client.Subscribe(t.Context(), "c")
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if _, err := sub.ReceiveTimeout(t.Context(), time.Minute); err == nil {
		t.Error("the subscription lives on")
	}
	fresh := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = fresh.Close() })
	if err := fresh.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

func TestLossyProxy_DownIsAnOutageUntilUp(t *testing.T) {
	t.Parallel()
	proxy, client := proxied(t)
	proxy.Down()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("answers while down")
	}
	proxy.Up()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after Up: %v", err)
	}
}

func TestLossyProxy_DelayHoldsRepliesBack(t *testing.T) {
	t.Parallel()
	proxy, client := proxied(t)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	proxy.Delay(100 * time.Millisecond)
	begin := time.Now()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 100*time.Millisecond {
		t.Errorf("took %s", took)
	}
}

func TestLossyProxy_WithNoServerBehindClosesTheConnection(t *testing.T) {
	t.Parallel()
	srv := realtest.Redis(t)
	proxy := realtest.LossyProxy(t, srv.Addr())
	srv.Kill()
	conn, err := dial(t.Context(), proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("somebody answers")
	}
}

func TestBlackhole_AcceptsAndNeverAnswers(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("test", func(t *testing.T) {
		addr = realtest.Blackhole(t)
		conn, err := dial(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("want silence, got %v", err)
		}
	})
	mustBeFree(t, addr)
}

func TestBlackhole_GoRedisGivesUpOnlyByItsOwnLimit(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{
		Addr: realtest.Blackhole(t), MaxRetries: -1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx).Err(); !isTimeout(err) {
		t.Errorf("want a timeout, got %v", err)
	}
}
