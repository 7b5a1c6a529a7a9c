package telemetry

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// metered are the instruments of an OpenTelemetry meter, by the name that they have on a
// Prometheus registry.
type metered struct {
	counters   map[string]metric.Int64Counter
	levels     map[string]metric.Float64UpDownCounter
	histograms map[string]metric.Float64Histogram
	gauges     map[string]*readings
	labels     map[string][]string
}

var _ backend = (*metered)(nil)

func newMetered(provider metric.MeterProvider) (*metered, error) {
	meter := provider.Meter(ScopeName)
	all := &metered{
		counters:   map[string]metric.Int64Counter{},
		levels:     map[string]metric.Float64UpDownCounter{},
		histograms: map[string]metric.Float64Histogram{},
		gauges:     map[string]*readings{},
		labels:     map[string][]string{},
	}
	var faults []error
	for _, i := range instruments() {
		if err := all.add(meter, i); err != nil {
			faults = append(faults, fmt.Errorf("metric %s: %w", i.otel, err))
		}
	}
	return all, errors.Join(faults...)
}

func (m *metered) add(meter metric.Meter, i instrument) (err error) {
	unit, help := metric.WithUnit(i.unit), metric.WithDescription(i.help)
	m.labels[i.name] = i.allLabels()
	switch i.kind {
	case kindCounter:
		m.counters[i.name], err = meter.Int64Counter(i.otel, unit, help)
	case kindLevel:
		m.levels[i.name], err = meter.Float64UpDownCounter(i.otel, unit, help)
	case kindReading:
		m.gauges[i.name] = newReadings()
		_, err = meter.Float64ObservableGauge(i.otel, unit, help, metric.WithFloat64Callback(m.reader(i)))
	case kindHistogram, kindDuration:
		m.histograms[i.name], err = meter.Float64Histogram(
			i.otel, unit, help, metric.WithExplicitBucketBoundaries(i.buckets...))
	}
	return err
}

// reader is called by the SDK when it collects.
func (m *metered) reader(i instrument) metric.Float64Callback {
	return func(_ context.Context, observer metric.Float64Observer) error {
		for _, one := range m.gauges[i.name].read() {
			observer.Observe(one.value, metric.WithAttributeSet(m.attributes(i.name, one.labels)))
		}
		return nil
	}
}

// counter makes the series, at zero.
func (m *metered) counter(name, operation string, values ...string) counter {
	set := metric.WithAttributeSet(m.attributes(name, withOperation(operation, values)))
	c := &otelCounter{m.counters[name], []metric.AddOption{set}}
	c.Add(context.Background(), 0, c.options...)
	return c
}

func (m *metered) level(name, operation string) level {
	set := metric.WithAttributeSet(m.attributes(name, []string{operation}))
	l := &otelLevel{m.levels[name], []metric.AddOption{set}}
	l.Add(context.Background(), 0, l.options...)
	return l
}

func (m *metered) histogram(name, operation string, values ...string) histogram {
	set := metric.WithAttributeSet(m.attributes(name, withOperation(operation, values)))
	return &otelHistogram{m.histograms[name], []metric.RecordOption{set}}
}

func (m *metered) readings(name string) *readings { return m.gauges[name] }

func (m *metered) attributes(name string, values []string) attribute.Set {
	pairs := make([]attribute.KeyValue, 0, len(values))
	for i, value := range values {
		pairs = append(pairs, attribute.String(m.labels[name][i], value))
	}
	return attribute.NewSet(pairs...)
}

// The options are kept as the lists that the API takes, so that recording allocates nothing.

type otelCounter struct {
	metric.Int64Counter
	options []metric.AddOption
}

func (o *otelCounter) inc(c *call) { o.Add(c.sampled(), 1, o.options...) }

type otelLevel struct {
	metric.Float64UpDownCounter
	options []metric.AddOption
}

func (o *otelLevel) add(c *call, delta float64) { o.Add(c.sampled(), delta, o.options...) }

type otelHistogram struct {
	metric.Float64Histogram
	options []metric.RecordOption
}

func (o *otelHistogram) observe(c *call, value float64) { o.Record(c.sampled(), value, o.options...) }

// sampled is the context of a measurement. It has the span of the call where that is sampled,
// for the exemplars of the SDK, and neither the values nor the end of the caller's.
func (c *call) sampled() context.Context {
	if c == nil || !c.spanContext.IsSampled() {
		return context.Background()
	}
	if made := c.sampledContext.Load(); made != nil {
		return *made
	}
	fresh := trace.ContextWithSpanContext(context.Background(), c.spanContext)
	c.sampledContext.Store(&fresh)
	return fresh
}
