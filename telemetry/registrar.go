package telemetry

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// registrar registers collectors on one registry, uses those that an earlier
// Telemetry registered there, and gathers what stands in the way.
type registrar struct {
	reg    prometheus.Registerer
	added  []prometheus.Collector
	faults []error
}

// register returns the collector to use: the fresh one, or the one that is there.
func register[C prometheus.Collector](r *registrar, name string, fresh C) C {
	err := r.reg.Register(fresh)
	if err == nil {
		r.added = append(r.added, fresh)
		return fresh
	}
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	r.faults = append(r.faults, fmt.Errorf("metric %s clashes with one that is registered already: %w", name, err))
	return fresh
}

// finish unregisters what was added when something failed, so that an error
// leaves nothing in a scrape.
func (r *registrar) finish() error {
	if len(r.faults) == 0 {
		return nil
	}
	for _, c := range r.added {
		r.reg.Unregister(c)
	}
	return errors.Join(r.faults...)
}

func (r *registrar) counter(i instrument) *prometheus.CounterVec {
	opts := prometheus.CounterOpts{Name: i.name, Help: i.help}
	return register(r, i.name, prometheus.NewCounterVec(opts, i.allLabels()))
}

func (r *registrar) level(i instrument) *prometheus.GaugeVec {
	opts := prometheus.GaugeOpts{Name: i.name, Help: i.help}
	return register(r, i.name, prometheus.NewGaugeVec(opts, i.allLabels()))
}

// Limits of a native histogram: fine enough for a quantile within a tenth, and
// bounded in memory whatever is observed.
const (
	nativeFactor     = 1.1
	nativeMaxBuckets = 160
	nativeMinReset   = time.Hour
)

// histogram makes a duration classic and native at once: old servers read the
// buckets, new ones the native form.
func (r *registrar) histogram(i instrument) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: i.name, Help: i.help, Buckets: i.buckets}
	if i.kind == kindDuration {
		opts.NativeHistogramBucketFactor = nativeFactor
		opts.NativeHistogramMaxBucketNumber = nativeMaxBuckets
		opts.NativeHistogramMinResetDuration = nativeMinReset
	}
	return register(r, i.name, prometheus.NewHistogramVec(opts, i.allLabels()))
}

func (r *registrar) readings(i instrument) *readings {
	desc := prometheus.NewDesc(i.name, i.help, i.allLabels(), nil)
	return register(r, i.name, &readingsCollector{desc, newReadings()}).readings
}

// readingsCollector shows readings to a registry.
type readingsCollector struct {
	desc     *prometheus.Desc
	readings *readings
}

// Describe implements [prometheus.Collector].
func (c *readingsCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements [prometheus.Collector].
func (c *readingsCollector) Collect(ch chan<- prometheus.Metric) {
	for _, one := range c.readings.read() {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, one.value, one.labels...)
	}
}
