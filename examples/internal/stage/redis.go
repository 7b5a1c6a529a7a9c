package stage

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
)

// StartRedis returns the address of a Redis for several processes: the one given, or that of an
// imitation in this process if there is none.
func StartRedis(addr string) (used string, stop func(), err error) {
	if addr != "" {
		return addr, func() {}, nil
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return "", nil, err
	}
	fmt.Printf("an imitation of Redis is on %s\n", embedded.Addr())
	return embedded.Addr(), embedded.Close, nil
}

// OpenStore keeps the guard's records in memory, where the worker is one process, or in the Redis at
// the address.
func OpenStore(addr, prefix string) (store guard.Store, closeIt func(), err error) {
	if addr == "" {
		return guard.NewMemoryStore(), func() {}, nil
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
	closeIt = func() { _ = rdb.Close() }
	store, err = redisx.New(rdb, redisx.Options{Prefix: prefix})
	if err != nil {
		closeIt()
		return nil, nil, err
	}
	return store, closeIt, nil
}
