package stage

import (
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
)

// Redis is the address of a Redis for the guard of several processes: that of the flags, or an
// imitation in this process.
func (e *Env) Redis() (addr string, err error) {
	if e.redis != "" {
		return e.redis, nil
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return "", err
	}
	e.later(embedded.Close)
	fmt.Printf("an imitation of Redis is on %s\n", embedded.Addr())
	return embedded.Addr(), nil
}

// OpenRedis keeps the guard's records in the Redis at the address. Close it, also after an error.
func OpenRedis(addr, name string) (store guard.Store, closeIt func(), err error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
	store, err = redisx.New(rdb, redisx.Options{Prefix: "onceguard-" + name})
	return store, func() { _ = rdb.Close() }, err
}
