// Package otelmetrics tests that the metrics of the OpenTelemetry API, exported to Prometheus, are
// those of a Prometheus registry.
package otelmetrics
