//go:build unix

package otlp

import (
	"cmp"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// sink is a collector that keeps what it gets.
type sink struct {
	url   string
	mu    sync.Mutex
	raw   []byte // every request, one behind the other
	spans []span
}

// span is an exported span with what its envelope says.
type span struct {
	*tracepb.Span
	process, scope string
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", s.export)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL + "/v1/traces"
	return s
}

func (s *sink) export(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var request collectorpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = append(s.raw, raw...)
	for _, of := range request.GetResourceSpans() {
		process := attributeOf(of.GetResource().GetAttributes(), "service.name")
		for _, in := range of.GetScopeSpans() {
			for _, one := range in.GetSpans() {
				s.spans = append(s.spans, span{one, process.GetStringValue(), in.GetScope().GetName()})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // of an empty reply: all is taken
}

// all are the spans so far, in the order in which they started.
func (s *sink) all() []span {
	s.mu.Lock()
	defer s.mu.Unlock()
	spans := slices.Clone(s.spans)
	slices.SortStableFunc(spans, func(a, b span) int {
		return cmp.Compare(a.GetStartTimeUnixNano(), b.GetStartTimeUnixNano())
	})
	return spans
}

func (s *sink) bytes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.raw)
}

// attributeOf is the value of an attribute, nil without one.
func attributeOf(attributes []*commonpb.KeyValue, key string) *commonpb.AnyValue {
	for _, a := range attributes {
		if a.GetKey() == key {
			return a.GetValue()
		}
	}
	return nil
}

// text is an attribute's value if it is a string, "" without one.
func (s span) text(key string) string {
	return attributeOf(s.GetAttributes(), key).GetStringValue()
}

func id(b []byte) string { return hex.EncodeToString(b) }
