package protox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/protox"
)

func newGuard(tb testing.TB) *guard.Guard {
	tb.Helper()
	g, err := guard.New(guard.NewMemoryStore(), guard.WithCodec(protox.Codec()), guard.OnUnreadable(guard.Refuse))
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func replays[M proto.Message](t *testing.T, message M, same func(M) bool) {
	t.Helper()
	op, err := guard.NewOperation[M](newGuard(t), "payment.charge")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := op.Do(t.Context(), "order-1", func(context.Context) (M, error) { return message, nil })
		if err != nil || !same(got) {
			t.Errorf("got %v, %v; want %v", got, err, message)
		}
	}
}

func TestCodec_MessagesComeBack(t *testing.T) {
	receipt := wrapperspb.Int64(9007199254740993)
	replays(t, receipt, func(m *wrapperspb.Int64Value) bool { return proto.Equal(m, receipt) })
	list, err := structpb.NewList([]any{"a", true, nil})
	if err != nil {
		t.Fatal(err)
	}
	replays(t, list, func(m *structpb.ListValue) bool { return proto.Equal(m, list) })
	replays(t, &durationpb.Duration{}, func(m *durationpb.Duration) bool { return m != nil && m.AsDuration() == 0 })
	replays(t, nil, func(m *durationpb.Duration) bool { return m == nil })
}

func TestCodec_OfAnotherResultTypeIsAnErrorFromTheConstructor(t *testing.T) {
	if _, err := guard.NewOperation[string](newGuard(t), "x"); err == nil {
		t.Error("a string is no message")
	}
	if _, err := guard.NewOperation[proto.Message](newGuard(t), "x"); err == nil {
		t.Error("an interface does not say which message to make")
	}
}

func TestCodec_WhatItCannotReadIsAnError(t *testing.T) {
	for _, data := range [][]byte{nil, {'x'}, {'m', 0xff}} {
		var m *durationpb.Duration
		if err := protox.Codec().Unmarshal(data, &m); err == nil {
			t.Errorf("%q: want an error", data)
		}
	}
	if err := protox.Codec().Unmarshal([]byte{'n'}, "no pointer"); err == nil {
		t.Error("want an error for a target that is no message")
	}
	if _, err := protox.Codec().Marshal("text"); err == nil {
		t.Error("want an error for a result that is no message")
	}
}

func ExampleCodec() {
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		panic(err)
	}
	wait, err := guard.NewOperation[*durationpb.Duration](g, "slot.book", guard.WithCodec(protox.Codec()))
	if err != nil {
		panic(err)
	}
	for range 2 {
		result, err := wait.DoResult(context.Background(), "slot-7", func(context.Context) (*durationpb.Duration, error) {
			return &durationpb.Duration{Seconds: 90}, nil
		})
		fmt.Println(result.Value.AsDuration(), result.How, errors.Is(err, nil))
	}
	// Output:
	// 1m30s executed true
	// 1m30s replayed true
}
