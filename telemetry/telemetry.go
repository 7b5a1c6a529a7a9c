package telemetry

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
)

// Options says where the signals go. Each field that is nil switches its signal
// off; nothing falls back to a global provider, registry or logger.
type Options struct {
	// Registerer gets the metrics. Several Telemetries may share one: they share
	// the collectors too. Default: no metrics.
	Registerer prometheus.Registerer
	// MeterProvider gets the same metrics under the names of OpenTelemetry, in place of a
	// Registerer: New fails when both are given. Make one Telemetry for each provider: of two, only
	// one shows the readings (settings and oldest lease) of an operation that both have. Default:
	// no metrics.
	MeterProvider metric.MeterProvider
	// TracerProvider makes the tracer of the spans. Default: no spans; the trace
	// that is in a call's context is still put into records, logs and exemplars.
	TracerProvider trace.TracerProvider
	// Logger gets the log lines, with the context of the call. Default: no logs.
	Logger *slog.Logger
	// LogBurst is how many lines of one message an operation writes in a second. Those that come on
	// top become one line at its end, with their number. Lines about a key that somebody must look
	// at, and those for debugging, are always written. Default [DefaultLogBurst]; negative: every
	// line is written.
	LogBurst int
	// RenewSpansOver thins the spans of renewals: only those that took as long or longer, or that
	// failed or found the lease gone, get one, made when they end. Default 0: each renewal has its
	// span.
	RenewSpansOver time.Duration
}

// Telemetry is a [guard.Observer] that makes spans, metrics and log lines of what
// a guard does. It is safe for use by many goroutines and by several guards.
type Telemetry struct {
	metrics backend      // nil without metrics
	tracer  trace.Tracer // nil without spans
	logger  *slog.Logger // nil without logs
	behind  behind

	logBurst     int
	thinRenewals time.Duration
}

var _ guard.Observer = (*Telemetry)(nil)

// New returns a Telemetry for [guard.WithObserver]. It registers the metrics, and uses those that
// are there when the registry has them from an earlier call. It fails when an option is not valid,
// and when a metric of one of our names but of another making is registered; the error names it,
// and nothing stays registered then.
func New(opts Options) (*Telemetry, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("onceguard: new telemetry: %w", err)
	}
	if opts.LogBurst == 0 {
		opts.LogBurst = DefaultLogBurst
	}
	t := &Telemetry{logger: opts.Logger, logBurst: opts.LogBurst, thinRenewals: opts.RenewSpansOver}
	if opts.TracerProvider != nil {
		t.tracer = opts.TracerProvider.Tracer(ScopeName)
	}
	var err error
	if t.metrics, err = opts.newBackend(); err != nil {
		return nil, fmt.Errorf("onceguard: new telemetry: %w", err)
	}
	return t, nil
}

// newBackend returns nil when no metrics are wanted.
func (o Options) newBackend() (backend, error) {
	switch {
	case o.Registerer != nil:
		return newRegistered(o.Registerer)
	case o.MeterProvider != nil:
		return newMetered(o.MeterProvider)
	default:
		return nil, nil // no metrics
	}
}

// validate finds a nil pointer in an interface before the first call does.
func (o Options) validate() error {
	return errors.Join(
		notTypedNil("Registerer", o.Registerer),
		notTypedNil("MeterProvider", o.MeterProvider),
		notTypedNil("TracerProvider", o.TracerProvider),
		o.oneHomeOfMetrics(),
		notNegative("RenewSpansOver", o.RenewSpansOver),
	)
}

func (o Options) oneHomeOfMetrics() error {
	if o.Registerer != nil && o.MeterProvider != nil {
		return errors.New("both Registerer and MeterProvider are set: give one of them, which gets all metrics")
	}
	return nil
}

func notNegative(field string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s is %s: must not be negative; leave it out for all", field, d)
	}
	return nil
}

func notTypedNil(field string, value any) error {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%s is a nil %T: leave it out to switch the signal off", field, value)
	}
	return nil
}

// Operation implements [guard.Observer]. It makes every series of the operation,
// at zero. An operation that is made again under the same name goes on with the
// same series.
func (t *Telemetry) Operation(info guard.OperationInfo) guard.OperationObserver {
	op := &operation{
		name:     info.Name,
		spanName: SpanCallPrefix + info.Name,
		tracer:   t.tracer,
		logger:   t.logger,
		behind:   &t.behind,
		made:     time.Now(),

		thinRenewals: t.thinRenewals,
	}
	if t.logger != nil {
		op.storms = newStorms(t.logBurst)
	}
	op.callOptions, op.phaseOptions = spanOptions(info)
	if t.metrics != nil {
		op.series = bind(t.metrics, info)
	}
	return op
}
