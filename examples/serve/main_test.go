package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/redis/go-redis/v9/logging"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/telemetry"
)

// asProgram has the flags of the test binary that is to be the program.
const asProgram = "ONCEGUARD_SERVE"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "worker" { // of the fault kill
		main()
		return
	}
	if flags := os.Getenv(asProgram); flags != "" {
		os.Args = append(os.Args[:1], strings.Fields(flags)...)
		main()
		return
	}
	logging.Disable()
	realtest.Main(m)
}

func TestParse_RefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"-faults=cut,fire", "-rate=0", "-every=0s", "-for=-1s", "-lease=1ms", "more"} {
		if _, err := parse([]string{arg}); err == nil {
			t.Errorf("%s is taken", arg)
		}
	}
	o, err := parse([]string{"-faults", "cut,kill"})
	if err != nil || !slices.Equal(o.faults, []string{"cut", "kill"}) {
		t.Errorf("%v, %v", o.faults, err)
	}
	if o, err := parse([]string{"-faults", "none"}); err != nil || len(o.faults) != 0 {
		t.Errorf("%v, %v", o.faults, err)
	}
}

// The compose file gives the demo flags that it has.
func TestParse_TakesTheFlagsOfTheComposeFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, demo, _ := strings.Cut(string(text), "\n  demo:\n")
	_, demo, _ = strings.Cut(demo, "    command:\n")
	var flags []string
	for line := range strings.Lines(demo) {
		flag, ok := strings.CutPrefix(line, "      - ")
		if !ok {
			break
		}
		flags = append(flags, strings.TrimSpace(flag))
	}
	o, err := parse(flags)
	if err != nil || o.temporal == "" || o.redis == "" || o.otlp == "" || o.traceURL == "" || !o.logs {
		t.Errorf("%v: %+v, %v", flags, o, err)
	}
}

// sample is a pattern of series: a metric, and labels that are as given.
type sample struct {
	name, label, value string
}

var samplePattern = regexp.MustCompile(`^(\w+?)(?:\{(\w+)="([^"]+)"\})?$`)

func sampleOf(t *testing.T, text string) sample {
	t.Helper()
	m := samplePattern.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s is no series", text)
	}
	return sample{m[1], m[2], m[3]}
}

// in is the sum of its series: counts of a histogram, values of others.
func (s sample) in(families map[string]*dto.MetricFamily) (sum float64) {
	if name, ok := strings.CutSuffix(s.name, "_bucket"); ok {
		for _, m := range families[name].GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				if fmt.Sprint(b.GetUpperBound()) == s.value {
					sum += float64(b.GetCumulativeCount())
				}
			}
		}
		return sum
	}
	for _, m := range families[s.name].GetMetric() {
		if s.label == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
			return l.GetName() == s.label && l.GetValue() == s.value
		}) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// isGauge says that any value that is not 0 tells; of what only grows it is the growth.
func (s sample) isGauge(families map[string]*dto.MetricFamily) bool {
	return families[s.name].GetType() == dto.MetricType_GAUGE
}

func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	response, err := get(ctx, http.MethodGet, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

func get(ctx context.Context, method, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// steady is what load and faults move together.
func steady() map[string]sample {
	want := map[string]sample{}
	for _, outcome := range guard.Outcomes() {
		want["outcome "+string(outcome)] = sample{telemetry.MetricCalls, telemetry.LabelOutcome, string(outcome)}
	}
	for _, name := range []string{
		"temporal_activity_execution_latency_seconds", "temporal_worker_task_slots_available", "temporal_request_total",
	} {
		want["SDK: "+name] = sample{name: name}
	}
	return want
}

func TestServe_MovesEveryOutcomeAndFaultMetricAndEndsCleanly(t *testing.T) {
	t.Parallel()
	addr := fmt.Sprintf("127.0.0.1:%d", realtest.FreePort(t))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	running, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(running, []string{
			"-addr", addr, "-lease", "700ms", "-every", "2s", "-rate", "5", "-faults", "large,evict",
			"-temporal", realtest.SharedTemporal(t).Addr(), "-redis", realtest.SharedRedis(t).Addr(),
		})
	}()
	untilHealthy(ctx, t, addr)
	pages(ctx, t, "http://"+addr)
	for _, f := range faults() {
		causes(ctx, t, "http://"+addr, f)
	}
	for name := range standing(ctx, "http://"+addr+"/metrics", steady(), nil) {
		t.Errorf("%s did not move", name)
	}
	exemplars(ctx, t, "http://"+addr+"/metrics")
	end()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(endLimit):
		t.Errorf("it does not end within %v", endLimit)
	}
}

// causes a fault until it has moved what it is to move: on a machine that is short of time the store may
// fail by itself, and keep a fault from its effect.
func causes(ctx context.Context, t *testing.T, at string, f fault) {
	t.Helper()
	want := map[string]sample{}
	for _, text := range f.moves {
		want[f.name+": "+text] = sampleOf(t, text)
	}
	before, err := scrape(ctx, at+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for len(want) > 0 && ctx.Err() == nil {
		if code := status(ctx, t, http.MethodPost, at+"/fault/"+f.name); code != http.StatusAccepted {
			t.Fatalf("%s: %d", f.name, code)
		}
		try, cancel := context.WithTimeout(ctx, 15*time.Second)
		want = standing(try, at+"/metrics", want, before)
		cancel()
	}
	for name := range want {
		t.Errorf("%s did not move", name)
	}
}

const endLimit = 5 * time.Second

// standing scrapes until all that is wanted has moved since before, and returns what has not when the time
// is over.
func standing(ctx context.Context, url string, want map[string]sample, before map[string]*dto.MetricFamily) map[string]sample {
	want = maps.Clone(want)
	for len(want) > 0 {
		families, err := scrape(ctx, url)
		if err != nil {
			return want
		}
		for name, s := range want {
			if now := s.in(families); now > 0 && s.isGauge(families) || now > s.in(before) {
				delete(want, name)
			}
		}
		_ = pause(ctx, nil, 100*time.Millisecond)
	}
	return nil
}

func exemplars(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || !regexp.MustCompile(`onceguard_action_duration_seconds_bucket\{.* # \{trace_id=`).Match(text) {
		t.Errorf("no exemplars: %v", err)
	}
}

func untilHealthy(ctx context.Context, t *testing.T, addr string) {
	t.Helper()
	for askHealth(ctx, "http://"+addr+"/healthz") != nil {
		if err := pause(ctx, nil, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func status(ctx context.Context, t *testing.T, method, url string) int {
	t.Helper()
	response, err := get(ctx, method, url)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func pages(ctx context.Context, t *testing.T, at string) {
	t.Helper()
	for page, want := range map[string]int{
		"GET /": 200, "GET /leases": 200, "GET /healthz": 200, "GET /fault/pause": 405, "GET /nothing": 404,
		"POST /fault/fire": 404, "POST /fault/kill?for=1s": 400, "POST /fault/pause?for=2h": 400,
		"POST /fault/cut?for=1ms": 202,
	} {
		method, path, _ := strings.Cut(page, " ")
		if code := status(ctx, t, method, at+path); code != want {
			t.Errorf("%s: %d, want %d", page, code, want)
		}
	}
}

// The servers that it starts itself end with it, within the time.
func TestServe_EndsItsServersWhenInterrupted(t *testing.T) {
	t.Parallel()
	realtest.SharedTemporal(t) // there is one, so that the program need not build it
	realtest.SharedRedis(t)
	addr := fmt.Sprintf("127.0.0.1:%d", realtest.FreePort(t))
	var said strings.Builder
	child, err := realtest.StartChild(func(line string) { said.WriteString(line + "\n") },
		asProgram+"=-addr "+addr+" -faults none")
	if err != nil {
		t.Fatal(err)
	}
	defer child.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	untilHealthy(ctx, t, addr)
	if err := child.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-child.Gone():
	case <-time.After(endLimit):
		t.Fatalf("it does not end within %v", endLimit)
	}
	if code := child.State().ExitCode(); code != 0 {
		t.Errorf("exit code %d: %s", code, child.Errors())
	}
	if look := regexp.MustCompile(`redis-cli -p \d+ --scan --pattern 'onceguard-serve:\*'`); !look.MatchString(said.String()) {
		t.Errorf("no %s in:\n%s", look, said.String())
	}
	servers := regexp.MustCompile(`is on (127\.0\.0\.1:\d+)`).FindAllStringSubmatch(said.String(), -1)
	if len(servers) != 2 {
		t.Errorf("want two servers in:\n%s", said.String())
	}
	for _, server := range append(servers, []string{"", addr}) {
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", server[1]); err == nil {
			_ = conn.Close()
			t.Errorf("%s is left", server[1])
		}
	}
}

func TestReadme_ListsEachFaultWithWhatItMoves(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults() {
		var series []string
		for _, s := range f.moves {
			series = append(series, "`"+strings.TrimPrefix(s, "onceguard_")+"`")
		}
		line := fmt.Sprintf("| `%s` | %s | %s |", f.name, f.what, strings.Join(series, ", "))
		if !strings.Contains(string(text), line) {
			t.Errorf("not in README.md:\n%s", line)
		}
	}
}
