package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceguard/onceguard/guard"
)

func Example() {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		panic(err)
	}
	charge, err := guard.NewOperation[string](g, "payment.charge")
	if err != nil {
		panic(err)
	}
	charges := 0
	for range 3 {
		receipt, err := charge.Do(context.Background(), "order-4711", func(context.Context) (string, error) {
			charges++
			return fmt.Sprintf("receipt %d", charges), nil
		})
		fmt.Println(receipt, err)
	}
	fmt.Println("charges:", charges)
	// Output:
	// receipt 1 <nil>
	// receipt 1 <nil>
	// receipt 1 <nil>
	// charges: 1
}

// exampleOperation is an operation with results of type int.
func exampleOperation(opts ...guard.OperationOption) *guard.Operation[int] {
	g, err := guard.New(guard.NewMemoryStore(), guard.WithOwnerLabel("worker-7"))
	if err != nil {
		panic(err)
	}
	op, err := guard.NewOperation[int](g, "payment.charge", opts...)
	if err != nil {
		panic(err)
	}
	return op
}

func ExampleNewOperation() {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		panic(err)
	}
	_, err = guard.NewOperation[int](g, "payment.charge",
		guard.WithLease(50*time.Millisecond),
		guard.WithStoreTimeout(40*time.Millisecond),
		guard.OnStorageError("sometimes"))
	fmt.Println(err)
	// Output:
	// onceguard: new operation "payment.charge": lease 50ms: shorter than 3 × store timeout 40ms
	// OnStorageError "sometimes": must be one of ["fail_open" "fail_closed"]
}

func ExampleOperation_DoResult() {
	charge := exampleOperation()
	act := func(context.Context) (int, error) { return 42, nil }
	for range 2 {
		result, _ := charge.DoResult(context.Background(), "order-4711", act)
		fmt.Println(result.Value, result.How)
	}
	// Output:
	// 42 executed
	// 42 replayed
}

func ExampleWithInput() {
	charge := exampleOperation()
	act := func(context.Context) (int, error) { return 1, nil }
	type order struct{ Cents int }
	_, err := charge.Do(context.Background(), "order-4711", act, guard.WithInput(order{Cents: 100}))
	fmt.Println(err)
	_, err = charge.Do(context.Background(), "order-4711", act, guard.WithInput(order{Cents: 200}))
	fmt.Println(errors.Is(err, guard.ErrMismatch))
	// Output:
	// <nil>
	// true
}

func ExampleInProgressError() {
	charge := exampleOperation(guard.OnInFlight(guard.Refuse))
	somebodyElse := context.Background()
	_, _ = charge.Do(context.Background(), "order-4711", func(context.Context) (int, error) {
		_, err := charge.Do(somebodyElse, "order-4711", func(context.Context) (int, error) { return 2, nil })
		if held, ok := errors.AsType[*guard.InProgressError](err); ok {
			fmt.Println("held by", held.Owner, "and at most", held.RetryAfter.Round(time.Second), "if it is dead")
		}
		return 1, nil
	})
	// Output: held by worker-7 and at most 30s if it is dead
}

func ExampleOnStorageError() {
	g, err := guard.New(downStore{guard.NewMemoryStore()})
	if err != nil {
		panic(err)
	}
	act := func(context.Context) (string, error) { return "ran", nil }
	for _, mode := range []guard.StorageErrorMode{guard.FailOpen, guard.FailClosed} {
		op, err := guard.NewOperation[string](g, "payment.charge", guard.OnStorageError(mode))
		if err != nil {
			panic(err)
		}
		result, err := op.DoResult(context.Background(), "order-4711", act)
		fmt.Printf("%s: %q, storage error: %t\n", mode, result.Value, errors.Is(err, guard.ErrStorage))
	}
	// Output:
	// fail_open: "ran", storage error: false
	// fail_closed: "", storage error: true
}

// downStore is a store that cannot be reached before the action.
type downStore struct{ guard.Store }

func (downStore) Reserve(context.Context, guard.ReserveRequest) (guard.ReserveReply, error) {
	return guard.ReserveReply{}, errors.New("connection refused")
}
