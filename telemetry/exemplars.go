package telemetry

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// exemplarEvery is how often a bucket gets an exemplar. A scrape shows one for each bucket, and
// making one costs more than all other metrics of a call.
const exemplarEvery = time.Second

// promHistogram is a histogram with the traces of sampled calls as exemplars: another trace leads
// nowhere.
type promHistogram struct {
	prometheus.Observer
	exemplars prometheus.ExemplarObserver // nil if it takes none
	buckets   []float64
	due       []atomic.Int64 // when the next exemplar is, by bucket, in Unix nanoseconds
}

func newPromHistogram(observer prometheus.Observer, buckets []float64) *promHistogram {
	exemplars, _ := observer.(prometheus.ExemplarObserver)
	return &promHistogram{observer, exemplars, buckets, make([]atomic.Int64, len(buckets)+1)}
}

func (p *promHistogram) observe(c *call, value float64) {
	if p.exemplars == nil || !c.spanContext.IsSampled() || !c.spanContext.HasTraceID() || !p.isDue(value) {
		p.Observe(value)
		return
	}
	p.exemplars.ObserveWithExemplar(value, prometheus.Labels{metricExemplarTraceKey: c.spanContext.TraceID().String()})
}

// isDue reports true once in each period for the bucket of a value.
func (p *promHistogram) isDue(value float64) bool {
	bucket, _ := slices.BinarySearch(p.buckets, value)
	now := time.Now().UnixNano()
	due := p.due[bucket].Load()
	return now >= due && p.due[bucket].CompareAndSwap(due, now+int64(exemplarEvery))
}
