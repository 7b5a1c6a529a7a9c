package telemetry_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// histogram returns a histogram of a registry by name and by one label's value.
func (l *lab) histogram(t *testing.T, name, value string) *dto.Histogram {
	t.Helper()
	families, err := l.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			has := func(p *dto.LabelPair) bool { return p.GetValue() == value }
			if f.GetName() == name && slices.ContainsFunc(m.GetLabel(), has) {
				return m.GetHistogram()
			}
		}
	}
	t.Fatalf("no %s with %s", name, value)
	return nil
}

// exemplars are the traces that the buckets of a histogram name.
func exemplars(h *dto.Histogram) []string {
	var traces []string
	for _, b := range h.GetBucket() {
		for _, label := range b.GetExemplar().GetLabel() {
			traces = append(traces, label.GetName()+"="+label.GetValue())
		}
	}
	return traces
}

func TestExemplars_NameTheTraceOfASampledCall(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if _, err := l.op(t, guard.NewMemoryStore()).Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	want := []string{"trace_id=" + l.one(t, spanCall).SpanContext.TraceID().String()}
	for name, value := range map[string]string{
		telemetry.MetricPhaseDuration: "reserve", telemetry.MetricActionDuration: "ok",
	} {
		if got := exemplars(l.histogram(t, name, value)); !slices.Equal(got, want) {
			t.Errorf("%s: exemplars %v, want %v", name, got, want)
		}
	}
}

func TestExemplars_AnUnsampledTraceIsNotNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	if _, err := l.op(t, guard.NewMemoryStore()).Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	if got := exemplars(l.histogram(t, telemetry.MetricPhaseDuration, "reserve")); len(got) != 0 {
		t.Errorf("exemplars %v, want none", got)
	}
}

func TestExemplars_ABucketGetsOneInASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		op := l.op(t, guard.NewMemoryStore())
		named := func(key string, slow time.Duration) (last string) {
			_, err := op.Do(t.Context(), key, func(context.Context) (string, error) {
				time.Sleep(slow)
				return "done", nil
			})
			if err != nil {
				t.Fatal(err)
			}
			spans := l.named(spanCall)
			return "trace_id=" + spans[len(spans)-1].SpanContext.TraceID().String()
		}
		check := func(when string, want ...string) {
			t.Helper()
			if got := exemplars(l.histogram(t, telemetry.MetricActionDuration, "ok")); !slices.Equal(got, want) {
				t.Errorf("%s: exemplars %v, want %v", when, got, want)
			}
		}
		first := named("order-1", 0)
		named("order-2", 0)
		check("in the same second", first)
		slow := named("order-3", 90*time.Millisecond)
		check("another bucket", first, slow)
		time.Sleep(time.Second)
		check("a second later", named("order-4", 0), slow)
	})
}

func TestHistograms_DurationsAreClassicAndNative(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if _, err := l.op(t, guard.NewMemoryStore()).Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		telemetry.MetricPhaseDuration: "reserve", telemetry.MetricActionDuration: "ok",
	} {
		h := l.histogram(t, name, value)
		if len(h.GetBucket()) == 0 || len(h.GetPositiveSpan()) == 0 {
			t.Errorf("%s: %d classic buckets, %d native spans", name, len(h.GetBucket()), len(h.GetPositiveSpan()))
		}
	}
}

func TestLeases_AgesRenewalsAndWhatWasLeftAreMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		op := l.op(t, guard.NewMemoryStore(), guard.WithLease(30*time.Second))
		action := func(context.Context) (string, error) {
			time.Sleep(65 * time.Second)
			return "done", nil
		}
		go func() { _, _ = op.Do(t.Context(), "order-1", action) }()
		time.Sleep(5 * time.Second)
		go func() { _, _ = op.Do(t.Context(), "order-2", action) }()
		time.Sleep(59 * time.Second)
		wantSamples(t, l.registry, map[string]string{
			`onceguard_leases_held{}`:              "2",
			`onceguard_oldest_lease_age_seconds{}`: "64",
			`onceguard_operation_lease_seconds{}`:  "30",
		})
		time.Sleep(2 * time.Second)
		wantSamples(t, l.registry, map[string]string{
			`onceguard_leases_held{}`:              "1",
			`onceguard_oldest_lease_age_seconds{}`: "61",
		})
		time.Sleep(time.Minute)
		wantSamples(t, l.registry, map[string]string{
			`onceguard_leases_held{}`:                        "0",
			`onceguard_oldest_lease_age_seconds{}`:           "0",
			`onceguard_lease_renewals_total{result="ok"}`:    "12",
			`onceguard_lease_renewals_total{result="error"}`: "0",
			`onceguard_lease_remaining_ratio_count{}`:        "12",
			`onceguard_result_bytes_sum{}`:                   "12",
			`onceguard_calls_total{outcome="executed"}`:      "2",
		})
		// Each renewal comes a third of the lease after the one before it and takes
		// no time in memory, so two thirds are left.
		sum := samples(t, l.registry)[telemetry.MetricLeaseRemaining+`_sum{operation="`+opName+`"}`]
		if !strings.HasPrefix(sum, "7.99") && !strings.HasPrefix(sum, "8") {
			t.Errorf("sum of what was left: %s, want 12 times two thirds", sum)
		}
	})
}

func TestLeases_TheFirstRenewalCountsFromTheReserveAndNotFromTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		store := guard.NewMemoryStore()
		reserved(t.Context(), t, store, otherTraceParent, 20*time.Second)
		op := l.op(t, store, guard.WithLease(30*time.Second))
		_, err := op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
			time.Sleep(15 * time.Second)
			return "done", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h := l.histogram(t, telemetry.MetricLeaseRemaining, opName)
		if h.GetSampleCount() != 1 || h.GetSampleSum() < 0.66 || h.GetSampleSum() > 0.67 {
			t.Errorf("%d renewals with %v of the lease left, want one with two thirds", h.GetSampleCount(), h.GetSampleSum())
		}
	})
}
