package telemetry

import (
	"sync"
	"time"
)

// readings is a gauge that is read at each scrape. It has one series for each operation,
// whose other labels can be replaced: the last operation of a name wins, so that there is
// one series to join with.
type readings struct {
	mu         sync.Mutex
	operations map[string]reading
}

// reading is the value of one operation: the age of the oldest lease where there are leases.
type reading struct {
	labels []string // all of them, the operation first
	value  float64
	leases *leaseAge
}

func newReadings() *readings { return &readings{operations: map[string]reading{}} }

// set replaces the series of an operation.
func (r *readings) set(operation string, value float64, labels ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations[operation] = reading{labels: append([]string{operation}, labels...), value: value}
}

// leases returns those whose age the series of an operation tells, the same ones for the same name.
func (r *readings) leases(operation string) *leaseAge {
	r.mu.Lock()
	defer r.mu.Unlock()
	if there := r.operations[operation].leases; there != nil {
		return there
	}
	fresh := newLeaseAge()
	r.operations[operation] = reading{labels: []string{operation}, leases: fresh}
	return fresh
}

// read is done before anything is sent, so that a slow scrape holds no lock.
func (r *readings) read() []reading {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]reading, 0, len(r.operations))
	for _, one := range r.operations {
		if one.leases != nil {
			one.value = one.leases.oldest(now).Seconds()
		}
		all = append(all, one)
	}
	return all
}
