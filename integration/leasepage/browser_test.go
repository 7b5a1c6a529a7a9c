package leasepage

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/onceguard/onceguard/integration/internal/picture"
	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) { realtest.Main(m) }

// patience is how long anything that must happen on the page may take.
const patience = 30 * time.Second

// tab is a tab of a browser of its own, which looks at a handler.
type tab struct {
	*testing.T
	ctx    context.Context //nolint:containedctx // a tab is a context to the library
	server *httptest.Server
	pages  atomic.Int32 // requests for the page itself, not for its JSON

	mu        sync.Mutex
	complaint []string // what the browser has to say about the page
}

func open(t *testing.T, handler http.Handler) *tab {
	t.Helper()
	b := &tab{T: t}
	chromium := realtest.Chromium(t)
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/leases" { // the icon
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if !r.URL.Query().Has("format") {
			b.pages.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(b.server.Close)
	allocated, stop := chromedp.NewExecAllocator(context.Background(), picture.Browser(chromium)...)
	t.Cleanup(stop)
	ctx, closes := chromedp.NewContext(allocated, chromedp.WithListener(b.hear))
	t.Cleanup(closes)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("the browser does not end well: %v", err)
		}
	})
	b.ctx = ctx
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, log.Enable, struct{}{})
		return err
	}))
	b.width(1000)
	return b
}

// hear keeps what the console shows: exceptions, and what the policy of the page has kept out.
func (b *tab) hear(event any) {
	var said string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			said += " " + e.ExceptionDetails.Exception.Description
		}
	case *log.EventEntryAdded:
		said = fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *page.EventJavascriptDialogOpening:
		said = "dialog: " + e.Message
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaint = append(b.complaint, said)
}

func (b *tab) wantNoComplaint() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, said := range b.complaint {
		b.Errorf("the browser says: %s", said)
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

func (b *tab) visit() {
	b.Helper()
	b.do(chromedp.Navigate(b.server.URL + "/leases"))
}

func (b *tab) width(pixels int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(pixels, 700))
}

// eval evaluates an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits for something to be so on the page.
func (b *tab) until(what, expression string) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if eval[bool](b, expression) {
			return
		}
	}
	b.Fatalf("never: %s\nthe page: %s", what, eval[string](b, "document.body.innerText"))
}
