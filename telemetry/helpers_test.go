package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

const opName = "payment.charge"

// lab is a Telemetry whose three signals are kept in memory.
type lab struct {
	tel      *telemetry.Telemetry
	registry *prometheus.Registry
	spans    *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	logs     *lockedBuffer
}

func newLab(t *testing.T, opts ...sdktrace.TracerProviderOption) *lab {
	t.Helper()
	l := &lab{registry: prometheus.NewRegistry(), spans: tracetest.NewInMemoryExporter(), logs: &lockedBuffer{}}
	l.provider = sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(l.spans))...)
	var err error
	l.tel, err = telemetry.New(telemetry.Options{
		Registerer:     l.registry,
		TracerProvider: l.provider,
		Logger:         slog.New(slog.NewJSONHandler(l.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatalf("new telemetry: %v", err)
	}
	return l
}

// op makes an operation that the lab observes.
func (l *lab) op(t *testing.T, store guard.Store, opts ...guard.OperationOption) *guard.Operation[string] {
	t.Helper()
	g, err := guard.New(store, guard.WithObserver(l.tel), guard.WithOwnerLabel("host/1"))
	if err != nil {
		t.Fatalf("new guard: %v", err)
	}
	op, err := guard.NewOperation[string](g, opName, opts...)
	if err != nil {
		t.Fatalf("new operation: %v", err)
	}
	return op
}

// tracer is that of the application around the guard.
func (l *lab) tracer() trace.Tracer { return l.provider.Tracer("application") }

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// returns is an action that returns a value.
func returns(value string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return value, nil }
}

// fails is an action that fails.
func fails(err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "", err }
}

// brokenStore is a store whose calls fail when an error is set for them.
type brokenStore struct {
	guard.Store
	mu   sync.Mutex
	errs map[guard.Phase]error
}

func newBrokenStore() *brokenStore {
	return &brokenStore{Store: guard.NewMemoryStore(), errs: map[guard.Phase]error{}}
}

func (s *brokenStore) fail(err error, phases ...guard.Phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range phases {
		s.errs[p] = err
	}
}

func (s *brokenStore) err(p guard.Phase) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errs[p]
}

func (s *brokenStore) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	if err := s.err(guard.PhaseReserve); err != nil {
		return guard.ReserveReply{}, err
	}
	return s.Store.Reserve(ctx, req)
}

func (s *brokenStore) Renew(ctx context.Context, req guard.RenewRequest) (guard.RenewReply, error) {
	if err := s.err(guard.PhaseRenew); err != nil {
		return guard.RenewReply{}, err
	}
	return s.Store.Renew(ctx, req)
}

func (s *brokenStore) Replace(ctx context.Context, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	if err := s.err(guard.PhaseReplace); err != nil {
		return guard.ReplaceReply{}, err
	}
	return s.Store.Replace(ctx, req)
}

func (s *brokenStore) Release(ctx context.Context, req guard.ReleaseRequest) (guard.ReleaseReply, error) {
	if err := s.err(guard.PhaseRelease); err != nil {
		return guard.ReleaseReply{}, err
	}
	return s.Store.Release(ctx, req)
}

func (s *brokenStore) Load(ctx context.Context, req guard.LoadRequest) (guard.LoadReply, error) {
	if err := s.err(guard.PhaseLoad); err != nil {
		return guard.LoadReply{}, err
	}
	return s.Store.Load(ctx, req)
}

// scrape is what a Prometheus server gets.
func scrape(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	response := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(response, request)
	if response.Code != http.StatusOK {
		t.Fatalf("scrape: %s", response.Body)
	}
	return response.Body.String()
}

// samples are the lines of a scrape by name and labels.
func samples(t *testing.T, g prometheus.Gatherer) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(scrape(t, g)) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && !strings.HasPrefix(line, "#") {
			found[series+"}"] = value
		}
	}
	return found
}

// wantSamples checks the value of some series, given as in a scrape but without
// the operation.
func wantSamples(t *testing.T, g prometheus.Gatherer, want map[string]string) {
	t.Helper()
	got := samples(t, g)
	for series, value := range want {
		name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		full := name + "{" + strings.Join(sorted(labels, `operation="`+opName+`"`), ",") + "}"
		if got[full] != value {
			t.Errorf("%s = %q, want %q", full, got[full], value)
		}
	}
}
