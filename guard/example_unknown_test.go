package guard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceguard/onceguard/guard"
)

var errTimeout = errors.New("timeout after the request was sent")

// A charge whose outcome is unknown is not made again: the next call asks the
// provider first.
func ExampleWithRecovery() {
	charged := map[string]int{} // the provider's ledger
	ask := func(_ context.Context, lost guard.Evidence) (int, guard.Finding, error) {
		// A provider that knows fences refuses what the lost run may still send.
		if amount, ok := charged[lost.Key.Name]; ok {
			return amount, guard.Found, nil
		}
		return 0, guard.NotFound, nil
	}
	charge := exampleOperation(
		guard.ForPayments(),
		guard.WithRecovery(ask),
		guard.WithSettleTime(0)) // the fence makes not found final, so there is nothing to wait for

	_, err := charge.Do(context.Background(), "order-4711", func(context.Context) (int, error) {
		charged["order-4711"] = 4999
		return 0, errTimeout
	})
	fmt.Println("first:", err)

	result, err := charge.DoResult(context.Background(), "order-4711", func(context.Context) (int, error) {
		return 0, errors.New("never runs")
	})
	fmt.Println("second:", result.Value, result.How, err)
	// Output:
	// first: timeout after the request was sent
	// second: 4999 recovered <nil>
}

// Without a way to find out, nothing runs again, and a person decides.
func ExampleAtMostOnce() {
	charge := exampleOperation(guard.ForPayments(), guard.AtMostOnce())
	_, _ = charge.Do(context.Background(), "order-4711", func(context.Context) (int, error) { return 0, errTimeout })

	_, err := charge.Do(context.Background(), "order-4711", func(context.Context) (int, error) { return 1, nil })
	unknown, ok := errors.AsType[*guard.OutcomeUnknownError](err)
	fmt.Println(ok, unknown.Owner)

	// The provider's books say that the card was charged.
	err = charge.Resolve(context.Background(), "order-4711", guard.Resolution[int]{
		Fence: unknown.Fence, As: guard.StatusCompleted, Value: 4999, By: "an operator",
	})
	fmt.Println(err)

	fmt.Println(charge.Do(context.Background(), "order-4711", func(context.Context) (int, error) { return 1, nil }))
	// Output:
	// true worker-7
	// <nil>
	// 4999 <nil>
}

// A policy says what the provider's errors mean.
func ExampleOnFailure() {
	errCardDeclined := errors.New("card declined")
	errRefused := errors.New("connection refused")
	policy := func(err error, dispatched bool) guard.Disposition {
		switch {
		case errors.Is(err, errCardDeclined):
			return guard.Remember // definite: later calls are to get it too
		case errors.Is(err, errRefused):
			return guard.Release // nothing has been sent
		default:
			return guard.Undecided // held, if it was dispatched
		}
	}
	charge := exampleOperation(guard.ForPayments(), guard.AtMostOnce(), guard.OnFailure(policy),
		guard.WithErrorCodec(guard.NamedErrors(map[string]error{"declined": errCardDeclined})))

	decline := func(context.Context) (int, error) { return 0, errCardDeclined }
	_, err := charge.Do(context.Background(), "order-1", decline)
	fmt.Println(err)
	result, err := charge.DoResult(context.Background(), "order-1", func(context.Context) (int, error) { return 1, nil })
	fmt.Println(result.How, errors.Is(err, errCardDeclined))
	// Output:
	// card declined
	// replayed true
}

// An action that says when its request leaves may crash before it and be repeated.
func ExampleMarkDispatch() {
	charge := exampleOperation(guard.ForPayments(), guard.AtMostOnce(), guard.MarkDispatch())
	prepareFails := true
	action := func(ctx context.Context) (int, error) {
		if prepareFails {
			return 0, errors.New("no quote to be had")
		}
		if err := guard.Dispatched(ctx); err != nil {
			return 0, err // nothing may be sent
		}
		return 4999, nil // the request is sent here
	}
	_, err := charge.Do(context.Background(), "order-4711", action)
	fmt.Println(err)
	prepareFails = false
	fmt.Println(charge.Do(context.Background(), "order-4711", action))
	// Output:
	// no quote to be had
	// 4999 <nil>
}

// The fence goes to the other side, which refuses one that is smaller than what it
// has seen.
func ExampleFenceFromContext() {
	charge := exampleOperation()
	_, err := charge.Do(context.Background(), "order-4711", func(ctx context.Context) (int, error) {
		fence, ok := guard.FenceFromContext(ctx)
		fmt.Println(fence > 0, ok)
		return 4999, nil
	})
	fmt.Println(err)
	// Output:
	// true true
	// <nil>
}

func ExampleGuard_List() {
	store := guard.NewMemoryStore()
	g, err := guard.New(store, guard.WithOwnerLabel("worker-7"))
	if err != nil {
		panic(err)
	}
	charge, err := guard.NewOperation[int](g, "payment.charge", guard.ForPayments(), guard.AtMostOnce())
	if err != nil {
		panic(err)
	}
	_, _ = charge.Do(context.Background(), "order-4711", func(context.Context) (int, error) { return 0, errTimeout })

	for key, err := range g.List(context.Background(), guard.ListQuery{Operation: "payment.charge"}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(key.Key.Name, key.State, key.Record.Dispatch.Owner.Label)
	}
	// Output:
	// order-4711 held worker-7
}
