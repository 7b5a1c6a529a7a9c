package redisx_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
)

func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:6379",
		ContextTimeoutEnabled: true, // a call never outlasts its context
	})
	defer func() { _ = rdb.Close() }()

	store, err := redisx.New(rdb, redisx.Options{Prefix: "billing"})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := guard.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	charge, err := guard.NewOperation[string](g, "payment.charge")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = charge // see guard.Operation.Do

	fmt.Println("records are in", store.StoreName())
	// Output: records are in redis
}
