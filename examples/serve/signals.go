package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"

	"github.com/onceguard/onceguard/telemetry"
)

// signals is where metrics, traces and logs go.
type signals struct {
	registry *prometheus.Registry
	tracers  trace.TracerProvider
	logs     *slog.Logger
	stalled  atomic.Pointer[chan struct{}] // the logs of opExport stand still until it is closed
	stop     func()
}

func newSignals(ctx context.Context, o options) (*signals, error) {
	s := &signals{registry: prometheus.NewRegistry()}
	// Every call is sampled, so that there are exemplars. Without -otlp the traces go nowhere.
	providing := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "onceguard-serve"))),
	}
	if o.otlp != "" {
		exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.otlp+"/v1/traces"))
		if err != nil {
			return nil, err
		}
		providing = append(providing, sdktrace.WithBatcher(exporter))
	}
	tracers := sdktrace.NewTracerProvider(providing...)
	s.tracers = tracers
	s.stop = func() { //nolint:contextcheck // it is for the time after the context
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = tracers.Shutdown(ctx)
	}
	lines := io.Discard
	if o.logs {
		lines = os.Stderr
	}
	s.logs = slog.New(blocking{Handler: slog.NewJSONHandler(lines, nil), stalled: &s.stalled})
	return s, nil
}

func (s *signals) telemetry() (*telemetry.Telemetry, error) {
	return telemetry.New(telemetry.Options{Registerer: s.registry, TracerProvider: s.tracers, Logger: s.logs})
}

// clientOptions is a Temporal client with metrics on the same registry, and with traces.
func (s *signals) clientOptions(o options, addr string) (client.Options, error) {
	options := client.Options{HostPort: addr, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: s.tracers.Tracer("serve")})
	if err != nil {
		return options, err
	}
	options.Interceptors = []interceptor.ClientInterceptor{tracing}
	if !o.sdkMetrics {
		return options, nil
	}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(s.registry),
		otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return options, err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithView(sdkmetric.NewView(
		sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Name: "temporal_*"},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{
			Boundaries: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}},
	)))
	options.MetricsHandler = opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: meters.Meter("temporal-sdk-go"), UseMonotonicCounters: true,
	})
	return options, nil
}
