package leasepage

import (
	"bytes"
	"flag"
	"image/png"
	"net/http"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/onceguard/onceguard/integration/internal/picture"
)

var update = flag.Bool("update", false, "take the picture of the page anew")

const (
	file         = "../../docs/images/leases.png"
	pictureWidth = 1000
	pictureBytes = 60_000
)

// The picture is of a night on which the store is slow to one process: testdata/night.json in place of a
// service. It must stay small; what is on it is for people to judge.
func TestPicture_IsThereAndSmall(t *testing.T) {
	if *update {
		take(t)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil || config.Width != pictureWidth || len(data) > pictureBytes {
		t.Errorf("%d bytes, %d pixels wide, %v: want at most %d bytes, %d pixels", len(data), config.Width, err, pictureBytes, pictureWidth)
	}
}

func take(t *testing.T) {
	t.Helper()
	night, err := os.ReadFile("testdata/night.json")
	if err != nil {
		t.Fatal(err)
	}
	page := newService(t, "billing-7/4711", "payment.charge").handler()
	b := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("format") {
			_, _ = w.Write(night)
			return
		}
		page.ServeHTTP(w, r)
	}))
	b.width(pictureWidth)
	b.visit()
	b.until("the night is shown", `document.querySelectorAll("#leases li").length > 3`)
	shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	b.wantNoComplaint()
	small, err := picture.Small(shot, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, small, 0o600); err != nil {
		t.Fatal(err)
	}
}
