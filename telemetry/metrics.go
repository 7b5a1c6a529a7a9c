package telemetry

// backend makes the series of the instruments, on a Prometheus registry or by the
// OpenTelemetry API. A series is bound by the name of its instrument and the values of its
// labels, the operation first.
type backend interface {
	counter(name, operation string, values ...string) counter
	level(name, operation string) level
	histogram(name, operation string, values ...string) histogram
	readings(name string) *readings
}

// What a call tells a series. The call is the one that the measurement is of, for the
// trace in it; nil if there is none.
type (
	counter   interface{ inc(c *call) }
	level     interface{ add(c *call, delta float64) }
	histogram interface {
		observe(c *call, value float64)
	}
)
