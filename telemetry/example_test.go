package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// The application picks where the signals go; a signal that is left out is off.
func ExampleNew() {
	registry := prometheus.NewRegistry()
	provider := sdktrace.NewTracerProvider() // with your exporter
	defer func() { _ = provider.Shutdown(context.Background()) }()

	tel, err := telemetry.New(telemetry.Options{
		Registerer:     registry,
		TracerProvider: provider,
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := guard.New(guard.NewMemoryStore(), guard.WithObserver(tel))
	if err != nil {
		fmt.Println(err)
		return
	}
	charge, err := guard.NewOperation[string](g, "payment.charge")
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		receipt, err := charge.Do(context.Background(), "order-4711", func(context.Context) (string, error) {
			return "receipt-1", nil
		})
		fmt.Println(receipt, err)
	}
	printCalls(registry)
	// Output:
	// receipt-1 <nil>
	// receipt-1 <nil>
	// receipt-1 <nil>
	// executed 1
	// replayed 2
}

// printCalls prints the outcomes that have happened.
func printCalls(registry *prometheus.Registry) {
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == telemetry.MetricCalls && metric.GetCounter().GetValue() > 0 {
				fmt.Println(metric.GetLabel()[1].GetValue(), metric.GetCounter().GetValue())
			}
		}
	}
}

// Beside the metrics, the leases that this process holds.
func ExampleNewLeasesHandler() {
	g, err := guard.New(guard.NewMemoryStore(), guard.WithOwnerLabel("billing/1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	leases, err := telemetry.NewLeasesHandler(g, telemetry.TraceURL("https://jaeger.example/trace/{trace_id}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/leases", leases)

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/leases?format=json", http.NoBody))
	var snapshot struct {
		Owner string `json:"owner"`
		Total int    `json:"total"`
	}
	err = json.Unmarshal(answer.Body.Bytes(), &snapshot)
	fmt.Println(snapshot.Owner, snapshot.Total, err)
	// Output: billing/1 0 <nil>
}
