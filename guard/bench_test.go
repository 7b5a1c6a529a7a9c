package guard_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/onceguard/onceguard/guard"
)

// The cost of the protocol alone: the in-memory store, no observer.

func benchOp(b *testing.B) *guard.Operation[int] {
	b.Helper()
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		b.Fatal(err)
	}
	op, err := guard.NewOperation[int](g, "payment.charge")
	if err != nil {
		b.Fatal(err)
	}
	return op
}

func BenchmarkDo_Hit(b *testing.B) {
	op, ctx := benchOp(b), b.Context()
	act := func(context.Context) (int, error) { return 1, nil }
	if _, err := op.Do(ctx, "order-1", act); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := op.Do(ctx, "order-1", act); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDo_Miss(b *testing.B) {
	op, ctx := benchOp(b), b.Context()
	act := func(context.Context) (int, error) { return 1, nil }
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := op.Do(ctx, strconv.Itoa(i), act); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDo_Failure(b *testing.B) {
	op, ctx := benchOp(b), b.Context()
	act := func(context.Context) (int, error) { return 0, errStoreDown }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := op.Do(ctx, "order-1", act); err == nil {
			b.Fatal("want an error")
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	op, ctx := benchOp(b), b.Context()
	act := func(context.Context) (int, error) { return 1, nil }
	order := map[string]any{"id": "order-1", "cents": 4711, "currency": "EUR"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := op.Do(ctx, "order-1", act, guard.WithInput(order)); err != nil {
			b.Fatal(err)
		}
	}
}
