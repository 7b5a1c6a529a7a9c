package telemetry_test

import (
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// observed is a set of signals whose cost is measured.
type observed struct {
	name    string
	options *telemetry.Options // nil for no observer at all
	allowed float64            // allocations more than without an observer
}

func observers() []observed {
	registry := func() prometheus.Registerer { return prometheus.NewRegistry() }
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	var unsampled, sampled trace.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
		sdktrace.NewTracerProvider()
	// Calls are made in blocks, of whose allocation each has a share.
	const block, unlimited = 0.2, 1000
	return []observed{
		{"none", nil, 0},
		{"metrics", &telemetry.Options{Registerer: registry()}, block},
		{"otel-metrics", &telemetry.Options{MeterProvider: meters}, block},
		{"unsampled-traces", &telemetry.Options{TracerProvider: unsampled}, 4 + block},
		{"metrics-unsampled-traces", &telemetry.Options{Registerer: registry(), TracerProvider: unsampled}, 4 + block},
		{"sampled-traces", &telemetry.Options{TracerProvider: sampled}, unlimited},
		{"metrics-sampled-traces", &telemetry.Options{Registerer: registry(), TracerProvider: sampled}, unlimited},
	}
}

// operation is one on a memory store of its own.
func (o observed) operation(tb testing.TB) *guard.Operation[string] {
	tb.Helper()
	var options []guard.GuardOption
	if o.options != nil {
		tel, err := telemetry.New(*o.options)
		if err != nil {
			tb.Fatal(err)
		}
		options = append(options, guard.WithObserver(tel))
	}
	g, err := guard.New(guard.NewMemoryStore(), options...)
	if err != nil {
		tb.Fatal(err)
	}
	op, err := guard.NewOperation[string](g, opName)
	if err != nil {
		tb.Fatal(err)
	}
	return op
}

// callKinds are executed, of a new key each, and replayed, all of one key whose result is there.
func callKinds() []string { return []string{"executed", "replayed"} }

// call makes one call of a kind after the other.
func (o observed) call(tb testing.TB, kind string) func() {
	tb.Helper()
	op, ctx, n := o.operation(tb), tb.Context(), 1_000_000_000
	act := returns("done")
	call := func() {
		if kind == "executed" {
			n++
		}
		if _, err := op.Do(ctx, strconv.Itoa(n), act); err != nil {
			tb.Fatal(err)
		}
	}
	call()
	return call
}

// BenchmarkCall is a whole call on the memory store. scripts/bench.sh compares the observers.
func BenchmarkCall(b *testing.B) {
	for _, kind := range callKinds() {
		for _, o := range observers() {
			b.Run(kind+"/"+o.name, func(b *testing.B) {
				call := o.call(b, kind)
				b.ReportAllocs()
				for b.Loop() {
					call()
				}
			})
		}
	}
}

// allocations of a call, in the mean of many.
func allocations(call func()) float64 {
	const many = 1000
	return testing.AllocsPerRun(5, func() {
		for range many {
			call()
		}
	}) / many
}

func TestAlloc_WhatObservingACallAdds(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, kind := range callKinds() {
		var none float64
		for _, o := range observers() {
			got := allocations(o.call(t, kind))
			if o.options == nil {
				none = got
			}
			t.Logf("%s, %s: %.2f allocations, %.2f more than without an observer", kind, o.name, got, got-none)
			if got-none > o.allowed {
				t.Errorf("%s, %s: %.2f allocations more than without an observer, at most %v are allowed",
					kind, o.name, got-none, o.allowed)
			}
		}
	}
}
