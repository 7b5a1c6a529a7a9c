package leasepage

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/onceguard/onceguard/telemetry"
)

// Operations, labels and keys that are markup to a browser that is careless with them, and as
// long as they may be.
func TestPage_HostileTextsAreTextAndFitOnAPhone(t *testing.T) {
	const attack = `</template><img src=x onerror=alert(1)><script>alert(2)</script>"'>`
	hostile := attack + strings.Repeat("W", 255-len(attack))
	s := newService(t, hostile, hostile)
	s.begin(hostile)
	b := open(t, s.handler(telemetry.ShowKeys(), telemetry.TraceURL("https://jaeger.example/{trace_id}")))
	b.width(375)
	b.visit()
	check := func(by string) {
		t.Helper()
		for _, field := range []string{"#owner", "[data-field=operation]", "[data-field=key]"} {
			if got := eval[string](b, `document.querySelector("`+field+`").textContent`); got != hostile {
				t.Errorf("%s, by %s: %q", field, by, got)
			}
		}
		if got := eval[int](b, `document.querySelectorAll("img, script:not([nonce])").length`); got != 0 {
			t.Errorf("by %s: %d elements from outside", by, got)
		}
		if got := eval[int](b, `document.documentElement.scrollWidth`); got > 375 {
			t.Errorf("by %s: the page is %d pixels wide, the screen 375", by, got)
		}
	}
	check("the template")
	eval[string](b, `document.querySelector("#leases").textContent = ""`) // so that the script makes the row anew
	b.until("the script makes the row", `document.querySelector("#leases li") !== null`)
	check("the script")
	b.wantNoComplaint()
}

func TestPage_SaysWhenNobodyAnswers(t *testing.T) {
	s := newService(t, "billing-7/4711", "payment.charge")
	s.begin("order-1")
	b := open(t, s.handler())
	b.visit()
	b.until("it is refreshed", s.row("order-1")+`.querySelector("[data-field=age]").textContent >= "1"`)
	b.server.CloseClientConnections()
	b.server.Close()
	b.until("it says that what it shows is old", `document.querySelector("#silent").checkVisibility()
		&& document.querySelector("#silent").textContent.startsWith("No answer for ")
		&& document.body.classList.contains("old")`)
	if !eval[bool](b, s.row("order-1")+` !== undefined`) {
		t.Error("what was seen last is gone")
	}
}

func TestPage_ComesBackWhenTheAnswersDo(t *testing.T) {
	s := newService(t, "billing-7/4711", "payment.charge")
	page, healthy := s.handler(), make(chan struct{})
	b := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-healthy:
		default:
			if r.URL.Query().Has("format") {
				http.Error(w, "sorry", http.StatusServiceUnavailable)
				return
			}
		}
		page.ServeHTTP(w, r)
	}))
	b.visit()
	b.until("it says why", `document.querySelector("#silent").textContent.includes("status 503")`)
	close(healthy)
	b.until("it has forgotten that", `document.querySelector("#silent").hidden && !document.body.classList.contains("old")`)
}

func TestPage_WorksWithoutJavaScript(t *testing.T) {
	s := newService(t, "billing-7/4711", "payment.charge")
	end := s.begin("order-1")
	b := open(t, s.handler())
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.visit()
	if !eval[bool](b, s.row("order-1")+`.checkVisibility()`) {
		t.Error("the lease is not shown")
	}
	end()
	b.until("it is refreshed", `document.querySelector("#empty") !== null && document.querySelector("#empty").checkVisibility()`)
	if b.pages.Load() < 2 {
		t.Error("the page was not loaded again")
	}
	b.wantNoComplaint()
}

// The template and the script have to say the same about the same lease.
func TestPage_TemplateAndScriptSayTheSame(t *testing.T) {
	b := open(t, newService(t, "billing-7/4711", "payment.charge").handler())
	b.visit()
	for seconds, want := range durations(t) {
		if got := eval[string](b, "duration("+seconds+")"); got != want {
			t.Errorf("duration(%s) is %q, want %q", seconds, got, want)
		}
	}
	if got := eval[string](b, `left(-3.25) + ", " + left(3.25)`); got != "over by 3.2 s, 3.2 s left" {
		t.Errorf("got %q", got)
	}
}

// durations is the table of how durations read, from the tests of the template.
func durations(t *testing.T) (table map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../../telemetry/testdata/durations.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &table); err != nil || len(table) == 0 {
		t.Fatalf("%v in %s", err, text)
	}
	return table
}
