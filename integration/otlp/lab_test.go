//go:build unix

package otlp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/telemetry"
)

// The operations of every child.
const (
	opCharge  = "payment.charge"
	opPayment = "payment.safe"   // with a recovery hook
	opOnce    = "payment.once"   // at most once
	opRefuse  = "payment.refuse" // does not wait
	opClosed  = "payment.closed" // does not run without the store
	opOff     = "payment.off"    // the kill switch is off
)

// patience is how long the parent waits for what must happen.
const patience = 30 * time.Second

// lab is a collector, a store and the processes of a test. The card is the secret: it is in each key,
// input, result and error text.
type lab struct {
	t         *testing.T
	sink      *sink
	redis     string
	prefix    string
	lease     time.Duration
	card      string
	processes []*process
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return &lab{
		t: t, sink: newSink(t), redis: realtest.SharedRedis(t).Addr(),
		prefix: uuid.NewString(), lease: lease, card: "4242" + uuid.NewString(),
	}
}

// process is a child.
type process struct {
	*realtest.Child
	lab  *lab
	name string

	mu      sync.Mutex
	tales   []tale
	ended   bool
	scraped string // at its end
}

// start starts a process, which is ready when it returns.
func (l *lab) start(name string) *process {
	l.t.Helper()
	text, err := json.Marshal(config{Name: name, Sink: l.sink.url, Redis: l.redis, Prefix: l.prefix, Lease: l.lease})
	if err != nil {
		l.t.Fatal(err)
	}
	p := &process{lab: l, name: name}
	p.Child, err = realtest.StartChild(func(line string) {
		var told tale
		if err := json.Unmarshal([]byte(line), &told); err != nil {
			told.What = "not a tale: " + line
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tales = append(p.tales, told)
	}, asChild+"="+string(text), "GORACE=halt_on_error=1")
	if err != nil {
		l.t.Fatal(err)
	}
	l.processes = append(l.processes, p)
	l.t.Cleanup(func() {
		p.Kill()
		if l.t.Failed() {
			l.t.Logf("%s: %s\n%s", name, p.State(), p.Errors())
		}
	})
	p.hear("", "ready")
	return p
}

// do begins a call with the secret in its key and input. The call has a name, which is its own in the lab.
func (p *process) do(call, operation string, o order) {
	p.lab.t.Helper()
	o.Call, o.Operation = call, operation
	if o.Key == "" {
		o.Key = "order-" + p.lab.card
	}
	if o.Card == "" {
		o.Card = p.lab.card
	}
	p.write(o)
}

// goOn lets the action of a call end.
func (p *process) goOn(call string) { p.write(order{Call: call, GoOn: true}) }

func (p *process) write(o order) {
	p.lab.t.Helper()
	line, err := json.Marshal(o)
	if err != nil {
		p.lab.t.Fatal(err)
	}
	p.Tell(string(line))
}

// told is what the process has told of a call.
func (p *process) told(call, what string) (tale, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, told := range p.tales {
		if told.Call == call && told.What == what {
			return told, true
		}
	}
	return tale{}, false
}

// hear waits until the process tells something of a call.
func (p *process) hear(call, what string) tale {
	p.lab.t.Helper()
	var told tale
	p.lab.until(p.name+" tells of "+call+": "+what, func() (ok bool) {
		select {
		case <-p.Gone():
			p.lab.t.Fatalf("%s has ended: %s\n%s", p.name, p.State(), p.Errors())
		default:
		}
		told, ok = p.told(call, what)
		return ok
	})
	return told
}

// ends waits for the end of a call with an outcome that is no error.
func (p *process) ends(call, how string) {
	p.lab.t.Helper()
	done := p.hear(call, "done")
	if done.How != how || done.Error != "" || !done.Same {
		p.lab.t.Errorf("%s: %s %q, error %q, right result: %t; want it %s", p.name, call, done.How, done.Error, done.Same, how)
	}
}

// fails waits for the end of a call with an error that has a text.
func (p *process) fails(call, text string) {
	p.lab.t.Helper()
	if done := p.hear(call, "done"); !strings.Contains(done.Error, text) {
		p.lab.t.Errorf("%s: %s has error %q, want %q in it", p.name, call, done.Error, text)
	}
}

// until waits for a condition.
func (l *lab) until(what string, holds func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			l.t.Fatalf("not within %s: %s\n%s", patience, what, l.draw(nil))
		}
	}
}

// exported waits until a process has exported so many spans of a name that have a result.
func (l *lab) exported(p *process, name, result string, n int) {
	l.t.Helper()
	l.until(p.name+" exports "+name+" = "+result, func() bool {
		found := 0
		for _, s := range l.sink.all() {
			if s.process == p.name && s.GetName() == name && s.text(telemetry.AttrPhaseResult) == result {
				found++
			}
		}
		return found >= n
	})
}

// kill scrapes the process and ends it without its knowledge.
func (p *process) kill() {
	p.lab.t.Helper()
	p.scrape()
	p.Kill()
}

// quit scrapes the process and has it export what it has and end.
func (p *process) quit() {
	p.lab.t.Helper()
	p.scrape()
	p.write(order{Quit: true})
	select {
	case <-p.Gone():
	case <-time.After(patience):
		p.lab.t.Fatalf("%s does not end", p.name)
	}
	if !p.State().Success() {
		p.lab.t.Errorf("%s has ended with %s\n%s", p.name, p.State(), p.Errors())
	}
}

func (p *process) scrape() {
	p.lab.t.Helper()
	ready, _ := p.told("", "ready")
	request, err := http.NewRequestWithContext(p.lab.t.Context(), http.MethodGet, ready.Metrics, http.NoBody)
	if err != nil {
		p.lab.t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text") // has exemplars
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.lab.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		p.lab.t.Fatalf("%s: %v\n%s", response.Status, err, body)
	}
	p.ended, p.scraped = true, string(body)
}

// line is a log line of ours.
type line struct {
	Message string `json:"msg"`
	KeyHash string `json:"key_hash"`
	TraceID string `json:"trace_id"`
}

// lines are the log lines of a process that is gone.
func (p *process) lines() (lines []line) {
	for text := range strings.Lines(p.Errors()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && strings.HasPrefix(l.Message, "onceguard: ") {
			lines = append(lines, l)
		}
	}
	return lines
}

// wantNoSecret looks for the card in all that has left the processes, which are gone.
func (l *lab) wantNoSecret() {
	l.t.Helper()
	l.noSecretIn("what was exported", l.sink.bytes(), "guard.reserve")
	for _, p := range l.processes {
		if !p.ended {
			l.t.Fatalf("%s has not been asked for its metrics", p.name)
		}
		l.noSecretIn("the log of "+p.name, p.Errors(), telemetry.LogKeyHash)
		l.noSecretIn("the metrics of "+p.name, p.scraped, telemetry.MetricCalls[:len(telemetry.MetricCalls)-len("_total")])
	}
}

// noSecretIn also wants a word, so that what is searched is what it is taken for.
func (l *lab) noSecretIn(what, text, word string) {
	l.t.Helper()
	if !strings.Contains(text, word) {
		l.t.Errorf("there is no %q in %s", word, what)
	}
	for name, secret := range map[string]string{
		"as it is": l.card, "in hexadecimal": hex.EncodeToString([]byte(l.card)), "in base64": cutBase64(l.card),
	} {
		if at := strings.Index(text, secret); at >= 0 {
			l.t.Errorf("the card is %s in %s: …%q…", name, what, text[max(0, at-200):min(len(text), at+200)])
		}
	}
}

// cutBase64 is what is in the middle of a base64 text, if the secret begins at a multiple of three bytes.
func cutBase64(secret string) string {
	var text bytes.Buffer
	_, _ = base64.NewEncoder(base64.StdEncoding, &text).Write([]byte(secret)) // without the last bytes
	return text.String()
}
