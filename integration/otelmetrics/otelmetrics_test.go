package otelmetrics

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/onceguard/onceguard/telemetry"
)

// exposition is a scrape: its comments and its samples by series.
type exposition struct {
	comments []string
	samples  map[string]string
}

func scrape(t *testing.T, registry *prometheus.Registry) exposition {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	encoder := expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	all := exposition{samples: map[string]string{}}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			all.comments = append(all.comments, line)
			continue
		}
		cut := strings.LastIndex(line, " ")
		all.samples[line[:cut]] = line[cut+1:]
	}
	return all
}

// home is where the metrics of one Telemetry are scraped.
type home struct {
	registry *prometheus.Registry
	options  telemetry.Options
}

func onRegistry(*testing.T) home {
	registry := prometheus.NewRegistry()
	return home{registry, telemetry.Options{Registerer: registry}}
}

// throughOTel exports the metrics of the OpenTelemetry API with the standard names.
func throughOTel(t *testing.T) home {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	return home{registry, telemetry.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))}}
}

// played returns what a scrape shows in the midst of the script and at its end.
func played(t *testing.T, make func(*testing.T) home) (midst, end exposition) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := make(t)
		tel, err := telemetry.New(h.options)
		if err != nil {
			t.Fatal(err)
		}
		s := newScript(t, tel)
		s.plain()
		s.broken()
		s.held()
		midst = scrape(t, h.registry)
		time.Sleep(time.Minute)
		synctest.Wait()
		end = scrape(t, h.registry)
	})
	return midst, end
}

func TestExport_AScrapeIsThatOfAPrometheusRegistry(t *testing.T) {
	t.Parallel()
	wantMidst, wantEnd := played(t, onRegistry)
	gotMidst, gotEnd := played(t, throughOTel)
	sameScrape(t, "in the midst", gotMidst, wantMidst)
	sameScrape(t, "at the end", gotEnd, wantEnd)
	moved(t, wantMidst, wantEnd)
}

// sameScrape wants the same families, labels and values. The OpenTelemetry API cannot show a histogram before its
// first value.
func sameScrape(t *testing.T, when string, got, want exposition) {
	t.Helper()
	if !slices.Equal(got.comments, want.comments) {
		t.Errorf("%s: names, types and help\n%s\nwant\n%s", when, strings.Join(got.comments, "\n"), strings.Join(want.comments, "\n"))
	}
	for series, value := range want.samples {
		other, there := got.samples[series]
		if there && other != value || !there && !emptyHistogram(series, value) {
			t.Errorf("%s: %s = %q, want %q", when, series, other, value)
		}
	}
	for series := range got.samples {
		if _, there := want.samples[series]; !there {
			t.Errorf("%s: %s is not on a Prometheus registry", when, series)
		}
	}
}

func emptyHistogram(series, value string) bool {
	name, _, _ := strings.Cut(series, "{")
	part := strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count")
	return part && value == "0"
}

// moved wants the script to have moved every metric, so that the comparison means something.
func moved(t *testing.T, scrapes ...exposition) {
	t.Helper()
	still := map[string]bool{}
	for _, line := range scrapes[0].comments {
		if name, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, _, _ = strings.Cut(name, " ")
			still[name] = true
		}
	}
	for _, s := range scrapes {
		for series, value := range s.samples {
			name, _, _ := strings.Cut(series, "{")
			if value != "0" {
				delete(still, name)
				delete(still, strings.TrimSuffix(name, "_count"))
			}
		}
	}
	delete(still, telemetry.MetricLogLinesDropped)
	if len(still) > 0 {
		t.Errorf("the script did not move %v", slices.Sorted(maps.Keys(still)))
	}
}

func TestExport_ExemplarsNameTheTraceAsOnAPrometheusRegistry(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T) home{"registry": onRegistry, "OpenTelemetry": throughOTel} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := make(t)
			provider := sdktrace.NewTracerProvider()
			h.options.TracerProvider = provider
			tel, err := telemetry.New(h.options)
			if err != nil {
				t.Fatal(err)
			}
			ctx, span := provider.Tracer("application").Start(t.Context(), "request")
			s := newScript(t, tel)
			if _, err := s.pay.Do(ctx, "order-1", takes(0, nil)); err != nil {
				t.Fatal(err)
			}
			want := span.SpanContext().TraceID().String()
			for _, metric := range []string{telemetry.MetricPhaseDuration, telemetry.MetricActionDuration, telemetry.MetricResultBytes} {
				if got := traceOf(t, h.registry, metric); got != want {
					t.Errorf("%s: exemplar of trace %q, want %q", metric, got, want)
				}
			}
		})
	}
}

// traceOf returns the trace that an exemplar of a histogram names.
func traceOf(t *testing.T, registry *prometheus.Registry, metric string) (trace string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				for _, label := range b.GetExemplar().GetLabel() {
					if label.GetName() == "trace_id" {
						trace = label.GetValue()
					}
				}
			}
		}
	}
	return trace
}
