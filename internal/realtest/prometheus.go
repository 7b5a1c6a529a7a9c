package realtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// PrometheusOptions say what a Prometheus scrapes and evaluates.
type PrometheusOptions struct {
	Target string        // host:port, the job is "onceguard"
	Scrape time.Duration // how often it scrapes and, unless the rules say otherwise, evaluates
	Rules  string        // the file of its rules, "" for none
}

// Prometheus starts a prometheus for this test, with exemplars kept, and returns its address. Without one it
// skips the test, or fails it where ONCEGUARD_REQUIRE_SERVERS is 1. ONCEGUARD_PROMETHEUS is the path of one
// that is not on the PATH.
func Prometheus(tb testing.TB, o PrometheusOptions) (url string) {
	tb.Helper()
	path, err := find("ONCEGUARD_PROMETHEUS", "prometheus")
	if err != nil {
		giveUp(tb, fmt.Errorf("%w; install it (apt-get install prometheus, brew install prometheus) "+
			"or set ONCEGUARD_PROMETHEUS to its path", err))
	}
	config := fmt.Sprintf("global: {scrape_interval: %s, evaluation_interval: %s}\n", inMillis(o.Scrape), inMillis(o.Scrape))
	if o.Rules != "" {
		config += fmt.Sprintf("rule_files: [%q]\n", o.Rules)
	}
	config += fmt.Sprintf("scrape_configs: [{job_name: onceguard, static_configs: [{targets: [%q]}]}]\n", o.Target)
	dir := tb.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	addr := local(FreePort(tb))
	url = "http://" + addr
	Command(tb, url+"/-/ready", path, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--enable-feature=exemplar-storage", "--log.level=warn")
	return url
}

func inMillis(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
