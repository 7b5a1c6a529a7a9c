package preview_test

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/onceguard/onceguard/integration/internal/picture"
	"github.com/onceguard/onceguard/integration/preview"
	"github.com/onceguard/onceguard/internal/realtest"
)

var update = flag.Bool("update", false, "look at the demo for minutes, and write the pictures of the boards to docs/images")

// look is how long the demo runs before the boards are drawn, and the time from fault to fault.
func look() (runs, every time.Duration) {
	if *update {
		return 5 * time.Minute, 12 * time.Second
	}
	return 25 * time.Second, 4 * time.Second
}

// Every board, in a browser, over the demo under load and with faults.
func TestBoards_AreDrawnWithoutAnEmptyPanel(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	chromium := realtest.Chromium(t)
	runs, every := look()
	addr := "127.0.0.1:" + strconv.Itoa(realtest.FreePort(t))
	program := realtest.Build(t, filepath.Join(root, "examples"), "./serve")
	prometheus := realtest.Prometheus(t, realtest.PrometheusOptions{Target: addr, Scrape: time.Second})
	realtest.Command(t, "http://"+addr+"/metrics", program, "-addr", addr, "-every", every.String(), "-rate", "3")
	at, err := url.Parse(prometheus)
	if err != nil {
		t.Fatal(err)
	}
	boards, err := preview.Boards(os.DirFS(filepath.Join(root, "dashboards")))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(preview.Handler(boards, at))
	defer server.Close()
	time.Sleep(runs)
	allocated, stop := chromedp.NewExecAllocator(t.Context(), picture.Browser(chromium)...)
	defer stop()
	for _, board := range boards {
		t.Run(board.UID, func(t *testing.T) {
			ctx, closes := chromedp.NewContext(allocated)
			defer closes()
			shot := draw(ctx, t, fmt.Sprintf("%s/d/%s?range=%d&step=2&scrape=1", server.URL, board.UID, int(runs.Seconds())))
			if *update {
				file := filepath.Join(root, "docs", "images", board.UID+".png")
				small, err := picture.Small(shot, 128)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, small, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// draw returns the picture of a page, of which every panel must have something in it.
func draw(ctx context.Context, t *testing.T, page string) (shot []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	do(ctx, t, chromedp.EmulateViewport(1400, 900))
	do(ctx, t, chromedp.Navigate(page))
	for do(ctx, t, chromedp.Evaluate[string](`document.body.dataset.ready ?? ""`)) != "yes" {
		time.Sleep(100 * time.Millisecond)
	}
	wrong := do(ctx, t, chromedp.Evaluate[[]string](`[...document.querySelectorAll('[data-broken], [data-empty]')]
		.map((e) => (e.querySelector('h2')?.textContent ?? e.id) + ': ' + (e.dataset.broken ?? 'no data'))`))
	for _, what := range wrong {
		t.Error(what)
	}
	height := do(ctx, t, chromedp.Evaluate[int64](`document.documentElement.scrollHeight`))
	do(ctx, t, chromedp.EmulateViewport(1400, height))
	return do(ctx, t, chromedp.FullScreenshot(100))
}

func do[T any](ctx context.Context, t *testing.T, action chromedp.Action[T]) T {
	t.Helper()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
