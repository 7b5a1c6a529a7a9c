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

// The labels that follow are those after the operation, which every metric has.

func (r *registrar) counter(name, help string, labels ...string) *prometheus.CounterVec {
	opts := prometheus.CounterOpts{Name: name, Help: help}
	return register(r, name, prometheus.NewCounterVec(opts, withOperation(labels)))
}

func (r *registrar) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	opts := prometheus.GaugeOpts{Name: name, Help: help}
	return register(r, name, prometheus.NewGaugeVec(opts, withOperation(labels)))
}

func (r *registrar) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	return register(r, name, prometheus.NewHistogramVec(opts, withOperation(labels)))
}

// Limits of a native histogram: fine enough for a quantile within a tenth, and
// bounded in memory whatever is observed.
const (
	nativeFactor     = 1.1
	nativeMaxBuckets = 160
	nativeMinReset   = time.Hour
)

// durations is a histogram that is classic and native at once: old servers read
// the buckets, new ones the native form.
func (r *registrar) durations(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeMaxBuckets,
		NativeHistogramMinResetDuration: nativeMinReset,
	}
	return register(r, name, prometheus.NewHistogramVec(opts, withOperation([]string{label})))
}

func withOperation(labels []string) []string {
	return append([]string{LabelOperation}, labels...)
}
