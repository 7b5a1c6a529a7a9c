package preview_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/onceguard/onceguard/integration/preview"
)

func TestHandler_ServesTheBoardsAndAsksThePrometheus(t *testing.T) {
	t.Parallel()
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "asked "+r.URL.String())
	}))
	defer prometheus.Close()
	at, err := url.Parse(prometheus.URL)
	if err != nil {
		t.Fatal(err)
	}
	boards, err := preview.Boards(fstest.MapFS{"one.json": {Data: []byte(`{"uid":"one","title":"One"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(preview.Handler(boards, at))
	defer server.Close()
	for path, want := range map[string]string{
		"/":                     `src="/static/board.js"`,
		"/d/one":                `src="/static/board.js"`,
		"/boards":               `[{"uid":"one","title":"One"}]`,
		"/boards/one.json":      `{"uid":"one","title":"One"}`,
		"/static/board.js":      "resolve",
		"/api/v1/query?query=1": "asked /api/v1/query?query=1",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s %q, %v, want %q", path, response.Status, text, err, want)
		}
	}
}

func TestBoards_SaysWhatIsNone(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]fstest.MapFS{
		"none":        {},
		"no board":    {"x.json": {Data: []byte(`{"title":"x"}`)}},
		"not in JSON": {"x.json": {Data: []byte(`{`)}},
	} {
		if _, err := preview.Boards(in); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
