package telemetry_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sorted puts one more label among others, in the order of a scrape.
func sorted(labels, more string) []string {
	all := []string{more}
	if labels != "" {
		all = append(all, strings.Split(labels, ",")...)
	}
	slices.Sort(all)
	return all
}

func TestNew_AFreshOperationShowsEverySeriesAtZero(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.op(t, guard.NewMemoryStore())
	const golden = "testdata/fresh_operation.prom"
	got := scrape(t, l.registry)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the scrape differs from %s; run the test with -update and look at the difference", golden)
	}
}

func TestNew_MetricNamesAndHelpPassTheLinter(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.op(t, guard.NewMemoryStore())
	problems, err := testutil.GatherAndLint(l.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestSeriesPerOperation_IsWhatAScrapeShows(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.op(t, guard.NewMemoryStore())
	if got := len(samples(t, l.registry)); got != telemetry.SeriesPerOperation {
		t.Errorf("a fresh operation has %d series, SeriesPerOperation says %d", got, telemetry.SeriesPerOperation)
	}
}

// madeUp is an error whose class no list has.
func madeUp(i int) error {
	return &guard.ClassifiedError{
		Class: guard.ErrorClass(fmt.Sprintf("class-%d", i)),
		Err:   fmt.Errorf("store error %d", i),
	}
}

func TestCase_O1_KeysAndErrorTextsDoNotMoveTheNumberOfSeries(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	tel, err := telemetry.New(telemetry.Options{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{tel: tel, registry: registry}
	store := newBrokenStore()
	op := l.op(t, store)
	const many = 10_000
	for i := range many {
		key := fmt.Sprintf("order-%d", i)
		_, err := op.Do(t.Context(), key, fails(fmt.Errorf("failure %d", i)))
		if err == nil {
			t.Fatal("the action's error did not come back")
		}
		store.fail(madeUp(i), guard.PhaseReserve, guard.PhaseReplace)
		if _, err = op.Do(t.Context(), key, returns("done")); err != nil {
			t.Fatalf("fail open: %v", err)
		}
		store.fail(nil, guard.PhaseReserve, guard.PhaseReplace)
	}
	if got := len(samples(t, registry)); got != telemetry.SeriesPerOperation {
		t.Errorf("%d series after %d keys and errors, want %d", got, many, telemetry.SeriesPerOperation)
	}
	wantSamples(t, registry, map[string]string{
		`onceguard_calls_total{outcome="failed"}`:                       "10000",
		`onceguard_calls_total{outcome="unguarded"}`:                    "10000",
		`onceguard_storage_errors_total{phase="reserve",class="other"}`: "10000",
		`onceguard_storage_errors_total{phase="replace",class="other"}`: "10000",
		`onceguard_unguarded_total{reason="storage"}`:                   "10000",
		`onceguard_unstored_results_total{reason="storage"}`:            "10000",
		`onceguard_phase_duration_seconds_count{phase="release"}`:       "10000",
		`onceguard_action_duration_seconds_count{result="error"}`:       "10000",
		`onceguard_phase_duration_seconds_count{phase="reserve"}`:       "20000",
		`onceguard_leases_held{}`:                                       "0",
	})
}

func TestCase_O4_CountersAreCountersAndZeroInitialised(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	store := newBrokenStore()
	op := l.op(t, store)
	families, err := l.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		name, kind := f.GetName(), f.GetType().String()
		if isCounter := kind == "COUNTER"; isCounter != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, kind)
		}
		for _, m := range f.GetMetric() {
			if m.GetCounter().GetValue() != 0 || m.GetHistogram().GetSampleCount() != 0 {
				t.Errorf("%s%v is not 0 at the start", name, m.GetLabel())
			}
		}
	}
	const failure = `onceguard_storage_errors_total{phase="reserve",class="timeout"}`
	wantSamples(t, l.registry, map[string]string{failure: "0"})
	store.fail(&guard.ClassifiedError{Class: guard.ClassTimeout, Err: errors.New("slow")}, guard.PhaseReserve)
	_, _ = op.Do(t.Context(), "order-1", returns("done"))
	wantSamples(t, l.registry, map[string]string{failure: "1"})
}

func TestOperation_MadeTwiceGoesOnWithTheSameSeries(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	store := guard.NewMemoryStore()
	first := l.op(t, store)
	second := l.op(t, store, guard.OnStorageError(guard.FailClosed))
	for i, op := range []*guard.Operation[string]{first, second} {
		if _, err := op.Do(t.Context(), fmt.Sprintf("order-%d", i), returns("done")); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(samples(t, l.registry)); got != telemetry.SeriesPerOperation {
		t.Errorf("%d series, want %d: one set for both", got, telemetry.SeriesPerOperation)
	}
	wantSamples(t, l.registry, map[string]string{
		`onceguard_calls_total{outcome="executed"}`:                                    "2",
		`onceguard_leases_held{}`:                                                      "0",
		`onceguard_operation_info{on_storage_error="fail_closed",on_in_flight="wait"}`: "1",
	})
}

func TestNew_TwiceOnOneRegistrySharesTheCollectors(t *testing.T) {
	t.Parallel()
	plain, below := prometheus.NewRegistry(), prometheus.NewRegistry()
	wrapped := prometheus.WrapRegistererWith(prometheus.Labels{"service": "billing"}, below)
	for _, tc := range []struct {
		name       string
		registerer prometheus.Registerer
		gatherer   prometheus.Gatherer
	}{
		{"plain", plain, plain},
		{"wrapped with labels", wrapped, below},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				tel, err := telemetry.New(telemetry.Options{Registerer: tc.registerer})
				if err != nil {
					t.Fatal(err)
				}
				op := (&lab{tel: tel}).op(t, guard.NewMemoryStore())
				if _, err := op.Do(t.Context(), "order-1", returns("done")); err != nil {
					t.Fatal(err)
				}
			}
			for series, value := range samples(t, tc.gatherer) {
				if strings.HasPrefix(series, telemetry.MetricCalls) && strings.Contains(series, "executed") && value != "2" {
					t.Errorf("%s = %s, want 2: one call of each", series, value)
				}
			}
			if got := len(samples(t, tc.gatherer)); got != telemetry.SeriesPerOperation {
				t.Errorf("%d series, want %d", got, telemetry.SeriesPerOperation)
			}
		})
	}
}

func TestNew_AForeignMetricOfOurNameIsAnErrorThatNamesItAndLeavesNothing(t *testing.T) {
	t.Parallel()
	foreign := prometheus.NewCounter(prometheus.CounterOpts{Name: telemetry.MetricStaleResults, Help: "Foreign."})
	registry := &countingRegistry{Registry: prometheus.NewRegistry()}
	registry.MustRegister(foreign)
	_, err := telemetry.New(telemetry.Options{Registerer: registry})
	if err == nil || !strings.Contains(err.Error(), telemetry.MetricStaleResults) {
		t.Fatalf("New = %v, want an error that names %s", err, telemetry.MetricStaleResults)
	}
	if registry.left != 0 {
		t.Errorf("a failed New left %d collectors behind", registry.left)
	}
}

func TestNew_AnotherCollectorOfTheSameDescriptionIsAnErrorToo(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: telemetry.MetricHits, Help: "Calls that got a stored result.",
	}, []string{telemetry.LabelOperation}))
	_, err := telemetry.New(telemetry.Options{Registerer: registry})
	if err == nil || !strings.Contains(err.Error(), telemetry.MetricHits) {
		t.Errorf("New = %v, want an error that names %s", err, telemetry.MetricHits)
	}
}

// countingRegistry counts the collectors that New leaves in it.
type countingRegistry struct {
	*prometheus.Registry
	left int
}

func (r *countingRegistry) Register(c prometheus.Collector) error {
	err := r.Registry.Register(c)
	if err == nil {
		r.left++
	}
	return err
}

func (r *countingRegistry) Unregister(c prometheus.Collector) bool {
	found := r.Registry.Unregister(c)
	if found {
		r.left--
	}
	return found
}

func TestNew_ANilPointerInAnOptionIsAnErrorAndNotALaterPanic(t *testing.T) {
	t.Parallel()
	var registry *prometheus.Registry
	var provider *sdktrace.TracerProvider
	var meters *sdkmetric.MeterProvider
	_, err := telemetry.New(telemetry.Options{Registerer: registry, TracerProvider: provider, MeterProvider: meters})
	for _, field := range []string{"Registerer", "TracerProvider", "nil *metric.MeterProvider"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("New = %v, want an error about the %s", err, field)
		}
	}
}

func TestNew_WithoutAnySignalObservesNothingAndBreaksNothing(t *testing.T) {
	t.Parallel()
	tel, err := telemetry.New(telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	op := (&lab{tel: tel}).op(t, guard.NewMemoryStore())
	if got, err := op.Do(t.Context(), "order-1", returns("done")); got != "done" || err != nil {
		t.Errorf("Do = %q, %v", got, err)
	}
}

func TestOperation_ANameThatIsNotUTF8DoesNotPanic(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.tel.Operation(guard.OperationInfo{Name: "bad\xff"})
	if !strings.Contains(scrape(t, l.registry), "bad\uFFFD") {
		t.Error("the operation has no series")
	}
}

func TestNew_NothingIsRegisteredOrLoggedWithoutBeingAskedTo(t *testing.T) {
	before, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	logs := &lockedBuffer{}
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(logs, nil)))
	defer slog.SetDefault(old)
	tel, err := telemetry.New(telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := newBrokenStore()
	store.fail(errors.New("down"), guard.PhaseReserve)
	_, _ = (&lab{tel: tel}).op(t, store).Do(t.Context(), "order-1", returns("done"))
	after, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(before) != len(after) || logs.String() != "" {
		t.Errorf("globals were used: %d then %d metrics, logs %q", len(before), len(after), logs)
	}
}

func TestTelemetry_ManyCallsAtOnceAreEachCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		op := l.op(t, guard.NewMemoryStore(), guard.WithLease(3*time.Second))
		const callers = 200
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				_, err := op.Do(t.Context(), fmt.Sprintf("order-%d", i%10), func(context.Context) (string, error) {
					time.Sleep(1500 * time.Millisecond) // one renewal, after a third of the lease
					return "done", nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		wantSamples(t, l.registry, map[string]string{
			`onceguard_calls_total{outcome="executed"}`:   "10",
			`onceguard_calls_total{outcome="replayed"}`:   "190",
			`onceguard_collisions_total{}`:                "190",
			`onceguard_hits_total{}`:                      "190",
			`onceguard_lease_renewals_total{result="ok"}`: "10",
			`onceguard_leases_held{}`:                     "0",
			`onceguard_waiters{}`:                         "0",
			`onceguard_oldest_lease_age_seconds{}`:        "0",
		})
		if got := len(l.named(spanCall)); got != callers {
			t.Errorf("%d spans of calls, want %d", got, callers)
		}
	})
}
