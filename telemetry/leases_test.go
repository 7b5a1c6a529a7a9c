package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// leases is the JSON as a client reads it.
type leases struct {
	At       time.Time      `json:"at"`
	Owner    string         `json:"owner"`
	Total    int            `json:"total"`
	NotShown int            `json:"not_shown"`
	Counts   map[string]int `json:"counts"`
	Leases   []map[string]any
}

// answer is what a handler answers.
type answer struct {
	status int
	header http.Header
	body   string
}

func get(t *testing.T, h http.Handler, path string, header ...string) answer {
	t.Helper()
	return ask(t, h, http.MethodGet, path, header...)
}

func ask(t *testing.T, h http.Handler, method, path string, header ...string) answer {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response := httptest.NewRecorder()
	h.ServeHTTP(response, request)
	return answer{response.Code, response.Header(), response.Body.String()}
}

func leasesOf(t *testing.T, h http.Handler) (got leases) {
	t.Helper()
	body := get(t, h, "/leases?format=json").body
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return got
}

func leasesHandler(t *testing.T, g *guard.Guard, opts ...telemetry.LeasesOption) http.Handler {
	t.Helper()
	h, err := telemetry.NewLeasesHandler(g, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// held is a guard on a broken store, in a bubble, whose actions last until the test ends.
type held struct {
	*testing.T
	*lab
	g     *guard.Guard
	store *brokenStore
}

func newHeld(t *testing.T, opts ...guard.GuardOption) *held {
	t.Helper()
	h := &held{T: t, lab: newLab(t), store: newBrokenStore()}
	g, err := guard.New(h.store, append([]guard.GuardOption{guard.WithObserver(h.tel), guard.WithOwnerLabel("host/1")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	h.g = g
	return h
}

// begin begins an action and returns what ends it.
func (h *held) begin(operation, key string) (end func()) {
	h.Helper()
	op, err := guard.NewOperation[string](h.g, operation)
	if err != nil {
		h.Fatal(err)
	}
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = op.Do(h.Context(), key, func(context.Context) (string, error) {
			<-ending
			return "done", nil
		})
	}()
	synctest.Wait()
	return func() {
		close(ending)
		<-ended
	}
}

func TestLeasesHandler_JSONHasTheFieldsOfItsContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		began := time.Now().UTC()
		defer h.begin(opName, "order-1")()
		time.Sleep(14 * time.Second)
		got := leasesOf(t, leasesHandler(t, h.g, telemetry.TraceURL("https://jaeger.example/trace/{trace_id}?x=1"), telemetry.ShowKeys()))
		if !got.At.Equal(began.Add(14*time.Second)) || got.Owner != "host/1" || got.Total != 1 || got.NotShown != 0 {
			t.Errorf("got %+v", got)
		}
		row := got.Leases[0]
		traceID, _ := row["trace_id"].(string)
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(traceID) {
			t.Errorf("trace_id %q", traceID)
		}
		for field, want := range map[string]any{
			"operation": opName, "key_hash": guard.KeyHash(guard.Key{Operation: opName, Name: "order-1"}), "key": "order-1",
			"owner": "host/1", "attempt": 1.0, "state": "fine",
			"since": began.Format(time.RFC3339), "renewed_at": began.Add(10 * time.Second).Format(time.RFC3339),
			"age_seconds": 14.0, "renewal_age_seconds": 4.0, "lease_seconds": 30.0, "left_seconds": 26.0, "left_ratio": 0.867,
			"dispatched": false, "took_over": false, "trace_url": "https://jaeger.example/trace/" + traceID + "?x=1",
		} {
			if row[field] != want {
				t.Errorf("%s is %v, want %v", field, row[field], want)
			}
		}
		if fence, _ := row["fence"].(float64); fence == 0 {
			t.Error("no fence")
		}
	})
}

func TestLeasesHandler_StatesAreThoseOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		page := leasesHandler(t, h.g)
		defer h.begin(opName, "order-1")()
		want := func(state string) {
			t.Helper()
			got := leasesOf(t, page)
			if got.Leases[0]["state"] != state || got.Counts[state] != 1 || len(got.Counts) != 4 {
				t.Errorf("the lease is %v, %v, want %s", got.Leases[0]["state"], got.Counts, state)
			}
			html := get(t, page, "/leases").body
			if !strings.Contains(html, `<li data-state="`+state+`"`) || !strings.Contains(html, `data-field="state">`+state+"<") {
				t.Errorf("the page does not say %s in colour and word", state)
			}
		}
		h.store.fail(errors.New("store down"), guard.PhaseRenew)
		time.Sleep(15 * time.Second)
		want("fine")
		time.Sleep(time.Second)
		want("late")
		time.Sleep(14*time.Second - time.Millisecond)
		want("late")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		want("lost")
	})
}

func TestLeasesHandler_ShowsTheMostEndangeredAndCountsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		page := leasesHandler(t, h.g, telemetry.MaxLeases(2))
		for _, key := range []string{"a", "b", "c"} {
			defer h.begin("op."+key, key)()
			time.Sleep(time.Second)
		}
		got := leasesOf(t, page)
		if got.Total != 3 || got.NotShown != 1 || got.Counts["fine"] != 3 || len(got.Leases) != 2 ||
			got.Leases[0]["operation"] != "op.a" || got.Leases[1]["operation"] != "op.b" {
			t.Errorf("got %+v", got)
		}
		html := get(t, page, "/leases").body
		first, second := strings.Index(html, ">op.a<"), strings.Index(html, ">op.b<")
		if first < 0 || second < first || strings.Contains(html, ">op.c<") {
			t.Error("the page does not show the two most endangered leases in order")
		}
		if !strings.Contains(html, `<p id="more"><b>1</b> more`) {
			t.Error("the page does not say how many are not shown")
		}
	})
}

func TestLeasesHandler_WithoutLeasesSaysSo(t *testing.T) {
	h := newHeld(t)
	page := leasesHandler(t, h.g)
	if body := get(t, page, "/leases?format=json").body; !strings.Contains(body, `"leases": []`) {
		t.Errorf("no leases are %s, want an empty list", body)
	}
	html := get(t, page, "/leases").body
	if !strings.Contains(html, `<p id="empty">`) || !strings.Contains(html, `<p id="more" hidden>`) {
		t.Error("the page does not say that there are no leases")
	}
}

// An empty page is no proof that all is well.
func TestLeasesHandler_AlwaysSaysWhatIsNotOnThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		page := leasesHandler(t, h.g)
		want := regexp.MustCompile(`<footer>Not here but in the metrics: [^<]*held keys, which Guard\.List lists too\.</footer>`)
		says := func(when string) {
			t.Helper()
			if html := get(t, page, "/leases").body; !want.MatchString(html) {
				t.Errorf("the page does not say what it lacks, %s", when)
			}
		}
		says("without leases")
		defer h.begin(opName, "order-1")()
		says("with a lease")
	})
}

func TestLeasesHandler_AnswersInTheFormatThatIsAskedFor(t *testing.T) {
	h := newHeld(t)
	page := leasesHandler(t, h.g)
	const asJSON, asHTML = "application/json; charset=utf-8", "text/html; charset=utf-8"
	for _, at := range []struct{ path, accept, want string }{
		{"/leases", "", asHTML},
		{"/leases", "*/*", asHTML},
		{"/leases", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", asHTML},
		{"/leases", "application/json", asJSON},
		{"/leases", "text/html;q=0.5, application/json", asJSON},
		{"/leases", "text/html, application/json;q=0.9", asHTML},
		{"/leases", "application/json;q=0", asHTML},
		{"/leases?format=json", "text/html", asJSON},
		{"/leases?format=html", "application/json", asHTML},
	} {
		response := get(t, page, at.path, "Accept", at.accept)
		if got := response.header.Get("Content-Type"); got != at.want || response.status != http.StatusOK {
			t.Errorf("%s with Accept %q: %d %s, want %s", at.path, at.accept, response.status, got, at.want)
		}
	}
	if got := get(t, page, "/leases?format=xml").status; got != http.StatusBadRequest {
		t.Errorf("an unknown format: %d", got)
	}
}

func TestLeasesHandler_OnlyLooks(t *testing.T) {
	h := newHeld(t)
	page := leasesHandler(t, h.g)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		response := ask(t, page, method, "/leases")
		if response.status != http.StatusMethodNotAllowed || response.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, Allow %q", method, response.status, response.header.Get("Allow"))
		}
	}
	head, full := ask(t, page, http.MethodHead, "/leases?format=html"), get(t, page, "/leases?format=html")
	if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") != full.header.Get("Content-Length") {
		t.Errorf("HEAD: %d, %q", head.status, head.header)
	}
}

func TestLeasesHandler_LetsNothingIn(t *testing.T) {
	h := newHeld(t)
	page := leasesHandler(t, h.g)
	nonces := map[string]bool{}
	for _, path := range []string{"/leases", "/leases", "/leases?format=json", "/leases?format=xml"} {
		response := get(t, page, path)
		header := response.header
		if header.Get("Cache-Control") != "no-store" || header.Get("X-Content-Type-Options") != "nosniff" ||
			header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, header)
		}
		policy := header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		body := response.body
		for _, nonce := range regexp.MustCompile(`'nonce-([^']+)'`).FindAllStringSubmatch(policy, -1) {
			nonces[nonce[1]] = true
			if !strings.Contains(body, `<script nonce="`+nonce[1]+`"`) || !strings.Contains(body, `<style nonce="`+nonce[1]+`"`) {
				t.Errorf("%s: script and style do not carry the nonce", path)
			}
		}
		if outside := regexp.MustCompile(`(?i)(src|href|url\(|@import)[=\s"']*(https?:)?//`).FindString(body); outside != "" {
			t.Errorf("%s loads something from elsewhere: %s", path, outside)
		}
	}
	if len(nonces) != 2 {
		t.Errorf("nonces %v, want one for each page", nonces)
	}
}

// hostile are texts that mean something to a browser that takes them for markup.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'onmouseover='alert(1)`, `{{.}}`, `</template><script>alert(1)</script>`,
	"\u202Egnp.exe", `javascript:alert(1)`,
}

func TestLeasesHandler_ShowsHostileTextsAsText(t *testing.T) {
	for _, text := range hostile {
		synctest.Test(t, func(t *testing.T) {
			h := newHeld(t, guard.WithOwnerLabel(text))
			_, err := h.store.Reserve(t.Context(), guard.ReserveRequest{
				Key:   guard.Key{Operation: text, Name: text},
				Owner: guard.Owner{Token: "dead", Label: text, TraceParent: "00-" + text}, Lease: time.Second, Retention: time.Hour,
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			defer h.begin(text, text)()
			page := leasesHandler(t, h.g, telemetry.ShowKeys())
			html := get(t, page, "/leases").body
			if strings.Contains(text, "<") && strings.Contains(html, text) || strings.Contains(html, "<img") || strings.Count(html, "<script") != 1 {
				t.Errorf("%q is markup in the page", text)
			}
			outsideOfValues := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(html, "")
			if inAttribute := regexp.MustCompile(`<[^>]*\son\w+=`).FindString(outsideOfValues); inAttribute != "" {
				t.Errorf("%q makes an attribute: %s", text, inAttribute)
			}
			row := leasesOf(t, page).Leases[0]
			for _, field := range []string{"operation", "key", "owner", "previous_owner"} {
				if row[field] != text {
					t.Errorf("%s is %q, want %q", field, row[field], text)
				}
			}
		})
	}
}

func TestLeasesHandler_ShowsNoKeyUnlessAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld(t)
		defer h.begin(opName, "jane@example.org")()
		hash := h.g.KeyHash(guard.Key{Operation: opName, Name: "jane@example.org"})
		for shown, page := range map[bool]http.Handler{false: leasesHandler(t, h.g), true: leasesHandler(t, h.g, telemetry.ShowKeys())} {
			for _, path := range []string{"/leases", "/leases?format=json"} {
				body := get(t, page, path).body
				if strings.Contains(body, "jane@example.org") != shown || !strings.Contains(body, hash) {
					t.Errorf("%s with keys %v: %s", path, shown, body)
				}
			}
		}
	})
}

func TestNewLeasesHandler_SaysWhatIsWrong(t *testing.T) {
	g := newHeld(t).g
	if _, err := telemetry.NewLeasesHandler(nil); err == nil || !strings.Contains(err.Error(), "guard is nil") {
		t.Errorf("a nil guard: %v", err)
	}
	for _, option := range []telemetry.LeasesOption{
		nil, telemetry.MaxLeases(0), telemetry.MaxLeases(10_001),
		telemetry.TraceURL(""), telemetry.TraceURL("javascript:alert('{trace_id}')"), telemetry.TraceURL("/trace/{trace_id}"),
		telemetry.TraceURL("ftp://jaeger.example/{trace_id}"), telemetry.TraceURL("https://jaeger.example/trace/"),
		telemetry.TraceURL("https://{trace_id}.example/"), telemetry.TraceURL("https://jaeger.example/{trace_id}/{trace_id}"),
		telemetry.TraceURL("https://jaeger.example\n/{trace_id}"), telemetry.TraceURL("https:///{trace_id}"),
	} {
		if _, err := telemetry.NewLeasesHandler(g, option); err == nil || !strings.HasPrefix(err.Error(), "onceguard: new leases handler: ") {
			t.Errorf("got %v", err)
		}
	}
	_, err := telemetry.NewLeasesHandler(nil, telemetry.MaxLeases(0), telemetry.TraceURL(""))
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v, want three faults", err)
	}
	for _, address := range []string{
		"https://jaeger.example?trace={trace_id}",
		"https://jaeger.example/trace/{trace_id}", "http://localhost:3000/explore?left=%7B%22query%22:%22{trace_id}%22%7D", "https://tempo.example/#{trace_id}",
	} {
		if _, err := telemetry.NewLeasesHandler(g, telemetry.TraceURL(address)); err != nil {
			t.Error(err)
		}
	}
}

// An operator has a span, and goes from its hash to the lease on the page, the log line and the
// record; with a secret, with hashed keys, with both and with none.
func TestKeyHash_LeadsFromTheSpanToThePageTheLogAndTheRecord(t *testing.T) {
	secret := guard.WithKeyHashSecret([]byte("0123456789abcdef"))
	for name, at := range map[string]struct {
		guard  []guard.GuardOption
		secret bool
		prefix string
	}{
		"none":   {},
		"secret": {[]guard.GuardOption{secret}, true, ""},
		"hashed": {[]guard.GuardOption{guard.WithHashedKeys()}, false, "sha256-"},
		"both":   {[]guard.GuardOption{secret, guard.WithHashedKeys()}, true, "hmac-sha256-"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHeld(t, at.guard...)
				end := h.begin(opName, "order-1")
				rows := leasesOf(t, leasesHandler(t, h.g)).Leases
				var open []guard.OpenKey
				lists, err := guard.New(h.store.Store, at.guard...) // another process
				if err != nil {
					t.Fatal(err)
				}
				for key, err := range lists.List(t.Context(), guard.ListQuery{}) {
					if err != nil {
						t.Fatal(err)
					}
					open = append(open, key)
				}
				end()

				hash := spanHash(h.spans.GetSpans())
				if plain := guard.KeyHash(guard.Key{Operation: opName, Name: "order-1"}); (hash == plain) == at.secret {
					t.Errorf("the hash of the span is %s, without a secret it is %s", hash, plain)
				}
				if len(rows) != 1 || rows[0]["key_hash"] != hash {
					t.Errorf("the page has %v, the span %s", rows, hash)
				}
				if !strings.Contains(h.logs.String(), `"key_hash":"`+hash+`"`) {
					t.Errorf("no log line has the hash %s of the span:\n%s", hash, h.logs)
				}
				if len(open) != 1 || open[0].KeyHash != hash {
					t.Errorf("the list has %+v, the span %s", open, hash)
				}
				if at.prefix != "" && !strings.HasPrefix(open[0].Key.Name, at.prefix+hash) {
					t.Errorf("the record is stored as %s, want %s%s…", open[0].Key.Name, at.prefix, hash)
				}
			})
		})
	}
}

// spanHash is the key hash of the call's span.
func spanHash(spans tracetest.SpanStubs) string {
	i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == telemetry.SpanCallPrefix+opName })
	for _, attr := range spans[i].Attributes {
		if string(attr.Key) == telemetry.AttrKeyHash {
			return attr.Value.AsString()
		}
	}
	return ""
}
