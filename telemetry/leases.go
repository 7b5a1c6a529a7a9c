package telemetry

import (
	"bytes"
	"crypto/rand"
	_ "embed" // the page
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// LeasesOption configures [NewLeasesHandler].
type LeasesOption func(*leasesOptions)

type leasesOptions struct {
	showKeys    bool
	traceURL    string // empty: no links
	traceURLSet bool
	limit       int
}

// ShowKeys shows keys in clear beside their hashes: for keys that everybody may see who can
// reach the page. Default: hashes alone.
func ShowKeys() LeasesOption {
	return func(o *leasesOptions) { o.showKeys = true }
}

// traceIDPlace is what stands for the trace id in [TraceURL].
const traceIDPlace = "{trace_id}"

// TraceURL makes a link of each trace id: an http or https address with {trace_id} once in its
// path, query or fragment, such as https://jaeger.example/trace/{trace_id}. Default: no links.
func TraceURL(address string) LeasesOption {
	return func(o *leasesOptions) { o.traceURL, o.traceURLSet = address, true }
}

// MaxLeases bounds how many leases are shown. All are counted, and how many are not shown is
// said. Default 200, between 1 and 10,000.
func MaxLeases(n int) LeasesOption {
	return func(o *leasesOptions) { o.limit = n }
}

const (
	defaultMaxLeases = 200
	maxMaxLeases     = 10_000
)

func (o *leasesOptions) validate() error {
	var faults []error
	if o.limit < 1 || o.limit > maxMaxLeases {
		faults = append(faults, fmt.Errorf("MaxLeases %d: not between 1 and %d", o.limit, maxMaxLeases))
	}
	if o.traceURLSet {
		faults = append(faults, checkTraceURL(o.traceURL))
	}
	return errors.Join(faults...)
}

func checkTraceURL(address string) error {
	const place = "0traceid0"
	parsed, err := url.Parse(strings.ReplaceAll(address, traceIDPlace, place))
	switch {
	case err != nil:
		return fmt.Errorf("TraceURL %q: %w", address, err)
	case parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "":
		return fmt.Errorf("TraceURL %q: not an http or https address with a host", address)
	case strings.Count(address, traceIDPlace) != 1:
		return fmt.Errorf("TraceURL %q: needs %s exactly once", address, traceIDPlace)
	case strings.Contains(parsed.Host+parsed.User.String(), place):
		return fmt.Errorf("TraceURL %q: %s belongs in the path, the query or the fragment", address, traceIDPlace)
	}
	return nil
}

//go:embed leases.html
var leasesPage string

type leasesHandler struct {
	leasesOptions

	guard *guard.Guard
	page  *template.Template
}

// NewLeasesHandler returns a handler that shows the leases that a guard holds in this process,
// the most endangered first, for mounting next to /metrics:
//
//	leases, err := telemetry.NewLeasesHandler(g, telemetry.TraceURL("https://jaeger.example/trace/{trace_id}"))
//	mux.Handle("/leases", leases)
//
// It serves a page that needs nothing from elsewhere, is made for phones too, and refreshes itself:
// every second, or every five without JavaScript. Whoever accepts application/json, or asks for
// ?format=json, gets JSON, whose fields are in the package comment. It answers GET and HEAD,
// and asks only this process, never the store.
//
// Keys are shown as [guard.Guard.KeyHash], unless [ShowKeys] says otherwise; operations, owner
// labels and trace ids in clear. Nobody is asked who they are: mount it where the metrics
// are, not where the world is.
//
// It fails when the guard is nil or an option is wrong. The handler is safe for use by many
// goroutines.
func NewLeasesHandler(g *guard.Guard, opts ...LeasesOption) (http.Handler, error) {
	h := &leasesHandler{guard: g, leasesOptions: leasesOptions{limit: defaultMaxLeases}}
	var faults []error
	if g == nil {
		faults = append(faults, errors.New("the guard is nil: make one with guard.New"))
	}
	for i, o := range opts {
		if o == nil {
			faults = append(faults, fmt.Errorf("option %d is nil: leave it out", i))
			continue
		}
		o(&h.leasesOptions)
	}
	page, err := template.New("page").Funcs(template.FuncMap{
		"duration": leaseDuration, "left": leaseLeft, "bar": leaseBar,
	}).Parse(leasesPage)
	h.page = page
	if err := errors.Join(append(faults, h.validate(), err)...); err != nil {
		return nil, fmt.Errorf("onceguard: new leases handler: %w", err)
	}
	return h, nil
}

// ServeHTTP implements [http.Handler].
func (h *leasesHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Vary", "Accept")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "the leases can only be looked at: GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	write := h.writePage
	switch format := r.URL.Query().Get("format"); {
	case format == "json", format == "" && acceptsJSON(r.Header.Get("Accept")):
		write = h.writeJSON
	case format != "" && format != "html":
		http.Error(w, "unknown format: html or json", http.StatusBadRequest)
		return
	}
	var body bytes.Buffer
	if err := write(header, &body); err != nil {
		http.Error(w, "the leases cannot be shown", http.StatusInternalServerError)
		return
	}
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body.Bytes())
	}
}

func (h *leasesHandler) writeJSON(header http.Header, body *bytes.Buffer) error {
	header.Set("Content-Type", "application/json; charset=utf-8")
	encoder := json.NewEncoder(body)
	encoder.SetIndent("", "  ")
	return encoder.Encode(h.snapshot(time.Now()))
}

func (h *leasesHandler) writePage(header http.Header, body *bytes.Buffer) error {
	nonce := rand.Text()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'nonce-"+nonce+
		"'; style-src 'nonce-"+nonce+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	return h.page.Execute(body, map[string]any{
		"Nonce": nonce, "Snapshot": h.snapshot(time.Now()), "Blank": leaseRow{},
	})
}

// acceptsJSON reports whether a client likes JSON better than a page.
func acceptsJSON(accept string) bool {
	quality := func(of string) (q float64) {
		for part := range strings.SplitSeq(accept, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err != nil || kind != of {
				continue
			}
			q = 1
			if given, err := strconv.ParseFloat(params["q"], 64); err == nil {
				q = given
			}
		}
		return q
	}
	return quality("application/json") > quality("text/html")
}
