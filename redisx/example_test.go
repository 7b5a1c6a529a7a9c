package redisx_test

import (
	"context"
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
	receipt, err := charge.Do(context.Background(), "order-4711", func(context.Context) (string, error) {
		return "ch_1", nil // ask the payment provider here
	})
	fmt.Println(receipt, err)
}
