package realtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/internal/realtest"
)

func TestRedis_AnswersAtOnceAndTakesArguments(t *testing.T) {
	t.Parallel()
	client := realtest.Redis(t, "--maxmemory", "5mb").Client(t)
	got := client.ConfigGet(t.Context(), "maxmemory").Val()
	if got["maxmemory"] != "5242880" {
		t.Errorf("maxmemory is %q", got)
	}
}

func TestRedis_AnswersBehindAPassword(t *testing.T) {
	t.Parallel()
	client := realtest.Redis(t, "--requirepass", "s").Client(t)
	if err := client.Do(t.Context(), "AUTH", "s").Err(); err != nil {
		t.Error(err)
	}
}

func TestRedis_ABadArgumentIsReportedWithWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	realtest.Redis(t) // skips where there is no redis-server
	failed := fakeTB(t, func(tb testing.TB) {
		tb.Helper()
		realtest.Redis(tb, "--no-such-setting", "1")
	})
	failed.mustFail(t, "no-such-setting")
}

func TestRedis_GoesAndComesBackOnItsPort(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*realtest.RedisServer){
		"stopped": (*realtest.RedisServer).Stop,
		"killed":  (*realtest.RedisServer).Kill,
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := realtest.Redis(t)
			client := srv.Client(t)
			client.Set(t.Context(), "k", "v", 0)

			end(srv)
			mustBeFree(t, srv.Addr())
			srv.Start()
			if err := client.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
				t.Errorf("want an empty server, got %v", err)
			}
		})
	}
}

func TestRedis_StartLeavesARunningServerAlone(t *testing.T) {
	t.Parallel()
	srv := realtest.Redis(t)
	client := srv.Client(t)
	client.Set(t.Context(), "k", "v", 0)
	srv.Start()
	if got := client.Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("the key is %q", got)
	}
}

func TestRedis_PausedAcceptsAndDoesNotAnswer(t *testing.T) {
	t.Parallel()
	srv := realtest.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: srv.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })

	srv.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx).Err(); !isTimeout(err) {
		t.Errorf("paused, got %v", err)
	}
	srv.Resume()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("resumed, got %v", err)
	}
}

func TestRedis_IsGoneWhenItsTestEnds(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*realtest.RedisServer){
		"running": func(*realtest.RedisServer) {},
		"paused":  (*realtest.RedisServer).Pause,
		"killed":  (*realtest.RedisServer).Kill,
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var addr string
			t.Run("test", func(t *testing.T) {
				srv := realtest.Redis(t)
				addr = srv.Addr()
				end(srv)
			})
			mustBeFree(t, addr)
		})
	}
}

func TestSharedRedis_IsOneAndNobodysToStop(t *testing.T) {
	t.Parallel()
	a, b := realtest.SharedRedis(t), realtest.SharedRedis(t)
	if a.Addr() != b.Addr() {
		t.Errorf("two servers: %s and %s", a.Addr(), b.Addr())
	}
	failed := fakeTB(t, func(tb testing.TB) {
		tb.Helper()
		realtest.SharedRedis(tb).Kill()
	})
	failed.mustFail(t, "shared")
	if err := a.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}
