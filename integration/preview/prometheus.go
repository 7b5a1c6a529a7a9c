package preview

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Prometheus is how to start a server.
type Prometheus struct {
	Target string        // what it scrapes, host:port
	Scrape time.Duration // how often
	Rules  string        // a file of rules, "" for none
}

// Start starts a server of its own on a free port, with exemplars kept. It ends with the
// context, and the folder of its data is removed then; stopped is closed after that.
func (p Prometheus) Start(ctx context.Context) (at *url.URL, stopped <-chan struct{}, err error) {
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: apt-get install --no-install-recommends prometheus, or brew install prometheus", err)
	}
	dir, err := os.MkdirTemp("", "prometheus")
	if err != nil {
		return nil, nil, err
	}
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(p.config()), 0o600); err != nil {
		return nil, nil, err
	}
	addr, err := freeAddress(ctx)
	if err != nil {
		return nil, nil, err
	}
	var said strings.Builder
	cmd := exec.CommandContext(ctx, binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), //nolint:gosec // ours
		"--web.listen-address="+addr, "--enable-feature=exemplar-storage", "--log.level=warn")
	cmd.Stderr = &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}()
	at = &url.URL{Scheme: "http", Host: addr}
	for {
		if ready(ctx, at) {
			return at, gone, nil
		}
		select {
		case <-gone:
			return nil, nil, errors.Join(errors.New("prometheus has ended: "+said.String()), ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p Prometheus) config() string {
	text := fmt.Sprintf("global: {scrape_interval: %s, evaluation_interval: %s}\n", p.Scrape, p.Scrape)
	if p.Rules != "" {
		text += fmt.Sprintf("rule_files: [%q]\n", p.Rules)
	}
	return text + fmt.Sprintf("scrape_configs: [{job_name: onceguard, static_configs: [{targets: [%q]}]}]\n", p.Target)
}

func ready(ctx context.Context, at *url.URL) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("-", "ready").String(), http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
