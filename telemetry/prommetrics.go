package telemetry

import "github.com/prometheus/client_golang/prometheus"

// registered are the instruments on a Prometheus registry, by name.
type registered struct {
	counters   map[string]*prometheus.CounterVec
	levels     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
	gauges     map[string]*readings
	buckets    map[string][]float64
}

var _ backend = (*registered)(nil)

func newRegistered(reg prometheus.Registerer) (*registered, error) {
	r := &registrar{reg: reg}
	all := &registered{
		counters:   map[string]*prometheus.CounterVec{},
		levels:     map[string]*prometheus.GaugeVec{},
		histograms: map[string]*prometheus.HistogramVec{},
		gauges:     map[string]*readings{},
		buckets:    map[string][]float64{},
	}
	for _, i := range instruments() {
		switch i.kind {
		case kindCounter:
			all.counters[i.name] = r.counter(i)
		case kindLevel:
			all.levels[i.name] = r.level(i)
		case kindReading:
			all.gauges[i.name] = r.readings(i)
		case kindHistogram, kindDuration:
			all.histograms[i.name], all.buckets[i.name] = r.histogram(i), i.buckets
		}
	}
	return all, r.finish()
}

func (r *registered) counter(name, operation string, values ...string) counter {
	return promCounter{r.counters[name].WithLabelValues(withOperation(operation, values)...)}
}

func (r *registered) level(name, operation string) level {
	return promLevel{r.levels[name].WithLabelValues(operation)}
}

func (r *registered) histogram(name, operation string, values ...string) histogram {
	return newPromHistogram(r.histograms[name].WithLabelValues(withOperation(operation, values)...), r.buckets[name])
}

func (r *registered) readings(name string) *readings { return r.gauges[name] }

type promCounter struct{ prometheus.Counter }

func (p promCounter) inc(*call) { p.Inc() }

type promLevel struct{ prometheus.Gauge }

func (p promLevel) add(_ *call, delta float64) { p.Add(delta) }
