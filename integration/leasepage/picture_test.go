package leasepage

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "take the picture of the page anew")

const (
	picture      = "../../docs/images/leases.png"
	pictureWidth = 1000
	pictureBytes = 60_000
)

// The picture is of a night on which the store is slow to one process: testdata/night.json in place of a
// service. It must stay small; what is on it is for people to judge.
func TestPicture_IsThereAndSmall(t *testing.T) {
	if *update {
		take(t)
	}
	file, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	config, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil || config.Width != pictureWidth || len(file) > pictureBytes {
		t.Errorf("%d bytes, %d pixels wide, %v: want at most %d bytes, %d pixels", len(file), config.Width, err, pictureBytes, pictureWidth)
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
	if err := os.WriteFile(picture, small(t, shot), 0o600); err != nil {
		t.Fatal(err)
	}
}

// small leaves the colours that are most frequent.
func small(t *testing.T, shot []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.RGBA]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			counts[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	var colors []color.RGBA
	for c := range counts {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	var palette color.Palette
	for _, c := range colors[:min(len(colors), 64)] {
		palette = append(palette, c)
	}
	reduced := image.NewPaletted(full.Bounds(), palette)
	draw.Draw(reduced, full.Bounds(), full, image.Point{}, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&out, reduced); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
