package redisx_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/internal/realtest"
)

// The calls of an operation that uses none of the abilities: what they cost is the
// two round trips of a miss and the one of a hit.

func benchmarkOp(b *testing.B, options redis.Options) *charger {
	b.Helper()
	options.Addr = realtest.SharedRedis(b).Addr()
	rdb := redis.NewClient(&options)
	b.Cleanup(func() { _ = rdb.Close() })
	c := newCharger(b, rdb)
	if _, err := c.charge(b.Context(), newKey(b)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return c
}

func benchmarkClients(b *testing.B, run func(b *testing.B, c *charger)) {
	b.Helper()
	b.Run("inline", func(b *testing.B) { run(b, benchmarkOp(b, redis.Options{ContextTimeoutEnabled: true})) })
	b.Run("goroutine", func(b *testing.B) { run(b, benchmarkOp(b, redis.Options{})) })
}

func BenchmarkOperation_Miss(b *testing.B) {
	benchmarkClients(b, func(b *testing.B, c *charger) {
		b.Helper()
		key := newKey(b)
		for i := 0; b.Loop(); i++ {
			if _, err := c.charge(b.Context(), key+strconv.Itoa(i)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkOperation_Hit(b *testing.B) {
	benchmarkClients(b, func(b *testing.B, c *charger) {
		b.Helper()
		key := newKey(b)
		if _, err := c.charge(b.Context(), key); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := c.charge(b.Context(), key); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkOperation_ActionFails(b *testing.B) {
	declined := errors.New("declined")
	benchmarkClients(b, func(b *testing.B, c *charger) {
		b.Helper()
		key := newKey(b)
		for i := 0; b.Loop(); i++ {
			_, err := c.Do(b.Context(), key+strconv.Itoa(i), func(context.Context) (int, error) { return 0, declined })
			if !errors.Is(err, declined) {
				b.Fatal(err)
			}
		}
	})
}
