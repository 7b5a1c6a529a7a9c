// Quickstart charges one order three times: a double click, then a retry. The
// card is charged once.
package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceguard/onceguard/guard"
)

type receipt struct{ ID string }

func main() {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		log.Fatal(err)
	}
	charge, err := guard.NewOperation[receipt](g, "payment.charge")
	if err != nil {
		log.Fatal(err)
	}

	var charges atomic.Int64
	pay := func(who string) {
		result, err := charge.DoResult(context.Background(), "order-4711",
			func(context.Context) (receipt, error) {
				time.Sleep(200 * time.Millisecond) // the payment provider takes its time
				return receipt{ID: fmt.Sprintf("receipt-%d", charges.Add(1))}, nil
			})
		fmt.Printf("%-12s %s, %s, error: %v\n", who, result.Value.ID, result.How, err)
	}

	var clicks sync.WaitGroup
	clicks.Go(func() { pay("click") })
	clicks.Go(func() { pay("double click") })
	clicks.Wait()
	pay("retry")
	fmt.Println("charges:", charges.Load())
}
