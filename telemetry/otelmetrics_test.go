package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// meterLab is a lab whose metrics go through the OpenTelemetry API.
type meterLab struct {
	*lab
	reader *sdkmetric.ManualReader
}

func newMeterLab(t *testing.T) *meterLab {
	t.Helper()
	l := &meterLab{&lab{provider: sdktrace.NewTracerProvider()}, sdkmetric.NewManualReader()}
	var err error
	l.tel, err = telemetry.New(telemetry.Options{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader)),
		TracerProvider: l.provider,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// collect returns the metrics by name.
func (l *meterLab) collect(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := l.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != telemetry.ScopeName {
			t.Errorf("scope %q, want %q", scope.Scope.Name, telemetry.ScopeName)
		}
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// values returns the points of all metrics, histograms by their count.
func (l *meterLab) values(t *testing.T) map[string]float64 {
	t.Helper()
	points := map[string]float64{}
	put := func(name string, set attribute.Set, value float64) {
		points[name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"] = value
	}
	for name, m := range l.collect(t) {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				put(name, p.Attributes, float64(p.Value))
			}
		case metricdata.Sum[float64]:
			for _, p := range data.DataPoints {
				put(name, p.Attributes, p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				put(name, p.Attributes, p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				put(name, p.Attributes, float64(p.Count))
			}
		default:
			t.Errorf("%s is a %T", name, data)
		}
	}
	return points
}

func (l *meterLab) want(t *testing.T, want map[string]float64) {
	t.Helper()
	got := l.values(t)
	for point, value := range want {
		if v, there := got[point]; !there || v != value {
			t.Errorf("%s = %v (%t), want %v", point, v, there, value)
		}
	}
}

func TestMeter_EveryCounterAndGaugeOfAFreshOperationIsThereAtZero(t *testing.T) {
	t.Parallel()
	l := newMeterLab(t)
	l.op(t, guard.NewMemoryStore())
	got := l.values(t)
	for point, value := range got {
		setting := strings.HasPrefix(point, "onceguard.operation.")
		if setting == (value == 0) {
			t.Errorf("%s = %v", point, value)
		}
	}
	counters := 0
	for series := range samples(t, freshRegistry(t)) {
		if !strings.Contains(series, "_bucket{") && !strings.Contains(series, "_sum{") && !strings.Contains(series, "_count{") {
			counters++
		}
	}
	if len(got) != counters {
		t.Errorf("%d points, want %d: as many counters and gauges as on a Prometheus registry", len(got), counters)
	}
}

// freshRegistry has the metrics of one operation.
func freshRegistry(t *testing.T) *prometheus.Registry {
	t.Helper()
	l := newLab(t)
	l.op(t, guard.NewMemoryStore())
	return l.registry
}

func TestCase_O1_KeysAndErrorTextsDoNotMoveTheNumberOfPointsOfAMeter(t *testing.T) {
	t.Parallel()
	l := newMeterLab(t)
	store := newBrokenStore()
	op := l.op(t, store)
	call := func(i int) {
		key := fmt.Sprintf("order-%d", i)
		_, _ = op.Do(t.Context(), key, fails(fmt.Errorf("failure %d", i)))
		store.fail(madeUp(i), guard.PhaseReserve, guard.PhaseReplace)
		_, _ = op.Do(t.Context(), key, returns("done"))
		store.fail(nil, guard.PhaseReserve, guard.PhaseReplace)
	}
	call(0)
	before := len(l.values(t))
	const many = 10_000
	for i := range many - 1 {
		call(i + 1)
	}
	if after := len(l.values(t)); after != before {
		t.Errorf("%d points after %d keys and errors, %d after one", after, many, before)
	}
	l.want(t, map[string]float64{
		"onceguard.calls{operation=payment.charge,outcome=failed}":                     many,
		"onceguard.calls{operation=payment.charge,outcome=unguarded}":                  many,
		"onceguard.storage.errors{class=other,operation=payment.charge,phase=reserve}": many,
		"onceguard.phase.duration{operation=payment.charge,phase=reserve}":             2 * many,
		"onceguard.leases.held{operation=payment.charge}":                              0,
	})
}

func TestCase_O4_AFirstErrorIsAStepOfAPointOfAMeterThatWasThere(t *testing.T) {
	t.Parallel()
	l := newMeterLab(t)
	store := newBrokenStore()
	op := l.op(t, store)
	const failure = "onceguard.storage.errors{class=timeout,operation=payment.charge,phase=reserve}"
	l.want(t, map[string]float64{failure: 0})
	store.fail(&guard.ClassifiedError{Class: guard.ClassTimeout, Err: errors.New("slow")}, guard.PhaseReserve)
	_, _ = op.Do(t.Context(), "order-1", returns("done"))
	l.want(t, map[string]float64{failure: 1})
	for name, m := range l.collect(t) {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && !sum.IsMonotonic {
			t.Errorf("%s can fall: a counter cannot", name)
		}
		if sum, ok := m.Data.(metricdata.Sum[float64]); ok && sum.IsMonotonic {
			t.Errorf("%s cannot fall: a gauge can", name)
		}
	}
}

func TestMeter_TheOldestLeaseAgesAndTheSettingsAreThoseOfTheLastOperationOfAName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newMeterLab(t)
		store := guard.NewMemoryStore()
		l.op(t, store, guard.OnStorageError(guard.FailClosed))
		op := l.op(t, store, guard.WithLease(30*time.Second))
		go func() {
			_, _ = op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
				time.Sleep(65 * time.Second)
				return "done", nil
			})
		}()
		time.Sleep(64 * time.Second)
		l.want(t, map[string]float64{
			"onceguard.leases.held{operation=payment.charge}":                                                 1,
			"onceguard.oldest_lease.age{operation=payment.charge}":                                            64,
			"onceguard.operation.lease{operation=payment.charge}":                                             30,
			"onceguard.operation.info{on_in_flight=wait,on_storage_error=fail_open,operation=payment.charge}": 1,
			"onceguard.lease.remaining.ratio{operation=payment.charge}":                                       6,
		})
		settings, _ := l.collect(t)["onceguard.operation.info"].Data.(metricdata.Gauge[float64])
		if n := len(settings.DataPoints); n != 1 {
			t.Errorf("%d points of the settings of one name, want one", n)
		}
		time.Sleep(2 * time.Second)
		l.want(t, map[string]float64{
			"onceguard.leases.held{operation=payment.charge}":      0,
			"onceguard.oldest_lease.age{operation=payment.charge}": 0,
		})
	})
}

func TestMeter_ExemplarsNameTheSpanOfASampledCallAlsoOfACallerThatLeft(t *testing.T) {
	t.Parallel()
	l := newMeterLab(t)
	ctx, span := l.tracer().Start(t.Context(), "request")
	ctx, leave := context.WithCancel(ctx)
	_, _ = l.op(t, guard.NewMemoryStore()).Do(ctx, "order-1", func(context.Context) (string, error) {
		leave()
		return "done", nil
	})
	want := span.SpanContext().TraceID()
	for _, name := range []string{"onceguard.phase.duration", "onceguard.action.duration", "onceguard.result"} {
		h, ok := l.collect(t)[name].Data.(metricdata.Histogram[float64])
		if !ok || len(h.DataPoints) == 0 {
			t.Fatalf("%s: no points", name)
		}
		for _, p := range h.DataPoints {
			if len(p.Exemplars) != 1 || !slices.Equal(p.Exemplars[0].TraceID, want[:]) {
				t.Errorf("%s: exemplars %v, want one of the trace %s", name, p.Exemplars, want)
			}
		}
	}
}

func TestNew_ARegistererAndAMeterProviderAreOneTooMany(t *testing.T) {
	t.Parallel()
	_, err := telemetry.New(telemetry.Options{Registerer: prometheus.NewRegistry(), MeterProvider: noop.NewMeterProvider()})
	if err == nil || !strings.Contains(err.Error(), "MeterProvider") || !strings.Contains(err.Error(), "Registerer") {
		t.Errorf("New = %v, want an error that names both fields", err)
	}
}

// refusingProvider is a provider whose meter makes no histograms.
type refusingProvider struct{ noop.MeterProvider }

type refusingMeter struct{ noop.Meter }

func (refusingProvider) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

func (refusingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errors.New("no histograms here")
}

func TestNew_AMeterThatRefusesAnInstrumentIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	_, err := telemetry.New(telemetry.Options{MeterProvider: refusingProvider{}})
	if err == nil || !strings.Contains(err.Error(), "onceguard.phase.duration") {
		t.Errorf("New = %v, want an error that names the instrument", err)
	}
}

func TestMeter_TheSDKsDefaultLimitHasRoomForAsManyOperationsAsThePackageCommentSays(t *testing.T) {
	t.Parallel()
	l := newMeterLab(t)
	overflows := func() bool {
		for point := range l.values(t) {
			if strings.Contains(point, "otel.metric.overflow") {
				return true
			}
		}
		return false
	}
	const room = 41
	for i := range room {
		l.tel.Operation(guard.OperationInfo{Name: fmt.Sprintf("operation-%d", i)})
	}
	if overflows() {
		t.Errorf("%d operations are too many for the SDK's default limit", room)
	}
	l.tel.Operation(guard.OperationInfo{Name: "one-more"})
	if !overflows() {
		t.Errorf("the SDK's default limit has room for more than %d operations", room)
	}
}

// panickingProvider is a provider whose histograms panic.
type panickingProvider struct{ noop.MeterProvider }

type panickingMeter struct{ noop.Meter }

type panickingHistogram struct{ noop.Float64Histogram }

func (panickingProvider) Meter(string, ...metric.MeterOption) metric.Meter { return panickingMeter{} }

func (panickingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return panickingHistogram{}, nil
}

func (panickingHistogram) Record(context.Context, float64, ...metric.RecordOption) { panic("broken") }

func TestMeter_APanicInItChangesNothingForTheCall(t *testing.T) {
	t.Parallel()
	tel, err := telemetry.New(telemetry.Options{MeterProvider: panickingProvider{}})
	if err != nil {
		t.Fatal(err)
	}
	op := (&lab{tel: tel}).op(t, guard.NewMemoryStore())
	for _, want := range []string{"executed", "replayed"} {
		if got, err := op.Do(t.Context(), "order-1", returns("executed")); got != "executed" || err != nil {
			t.Errorf("%s: Do = %q, %v", want, got, err)
		}
	}
}
