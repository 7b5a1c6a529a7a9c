package telemetry_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// A MeterProvider gets the metrics of a registry under the names of OpenTelemetry.
func ExampleNew_openTelemetryMetrics() {
	reader := sdkmetric.NewManualReader() // in its place one with your exporter
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { _ = provider.Shutdown(context.Background()) }()

	tel, err := telemetry.New(telemetry.Options{MeterProvider: provider})
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
		_, err = charge.Do(context.Background(), "order-4711", func(context.Context) (string, error) {
			return "receipt-1", nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		fmt.Println(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if hits, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "onceguard.hits" {
			fmt.Println(m.Name, hits.DataPoints[0].Value)
		}
	}
	// Output:
	// onceguard.hits 2
}
