package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"testing"
	"time"

	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/examples/internal/stage"
	"github.com/onceguard/onceguard/guard"
)

// charging runs ChargeCard under the guard, in the SDK's test environment.
func charging(t *testing.T, store guard.Store, p provider.Client) *testsuite.TestActivityEnvironment {
	t.Helper()
	g, err := newGuard(store)
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := guardCharges(g, p)
	if err != nil {
		t.Fatal(err)
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{guarded}})
	env.RegisterActivity(&Activities{provider: p, guarded: guarded})
	return env
}

// clientOf returns a client with connections of its own.
func clientOf(t *testing.T, address string) provider.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return provider.Client{URL: address, HTTP: &http.Client{Transport: transport}}
}

// serving returns a client of a handler.
func serving(t *testing.T, handler http.Handler) provider.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return clientOf(t, server.URL)
}

func TestPolicy_TellsWhatIsCertainFromWhatIsNot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		provider func(*testing.T) provider.Client
		cents    int64
		want     guard.Status // of the key
	}{
		"a timeout after the request was written": {timesOut, 1, guard.StatusHeld},
		"a reset after the request was written":   {resets, 1, guard.StatusHeld},
		"502 from a proxy":                        {behindADeadProxy, 1, guard.StatusHeld},
		"500":                                     {status(http.StatusInternalServerError), 1, guard.StatusHeld},
		"a reply that is no receipt":              {status(http.StatusOK), 1, guard.StatusHeld},
		"a connection that is refused":            {refuses, 1, guard.StatusReleased},
		"a name that has no address":              {hasNoAddress, 1, guard.StatusReleased},
		"an order that is none":                   {sound, -1, guard.StatusReleased},
		"a fence that is too old":                 {knowsALargerFence, 1, guard.StatusReleased},
		"a declined card":                         {sound, provider.DeclinedCents, guard.StatusFailed},
		"a charge":                                {sound, 1, guard.StatusCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := guard.NewMemoryStore()
			env := charging(t, store, test.provider(t))
			_, err := env.ExecuteActivity("ChargeCard", Order{ID: "o-1", Cents: test.cents})
			if (err != nil) != (test.want != guard.StatusCompleted) {
				t.Errorf("error %v", err)
			}
			found, loadErr := store.Load(t.Context(), guard.LoadRequest{Key: guard.Key{Operation: "ChargeCard", Name: "o-1"}})
			if loadErr != nil {
				t.Fatal(loadErr)
			}
			if found.Record.Status != test.want {
				t.Errorf("after %v the key is %q, want %q", err, found.Record.Status, test.want)
			}
		})
	}
}

func sound(t *testing.T) provider.Client {
	t.Helper()
	return serving(t, provider.Handler(provider.NewLedger(), provider.Options{}))
}

func status(code int) func(*testing.T) provider.Client {
	return func(t *testing.T) provider.Client {
		t.Helper()
		return serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	}
}

func timesOut(t *testing.T) provider.Client {
	t.Helper()
	over := make(chan struct{})
	p := serving(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-over
	}))
	t.Cleanup(func() { close(over) }) // before the server closes
	p.HTTP.Timeout = 200 * time.Millisecond
	return p
}

func resets(t *testing.T) provider.Client {
	t.Helper()
	return serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // so that the end is a reset
		_ = conn.Close()
	}))
}

func behindADeadProxy(t *testing.T) provider.Client {
	t.Helper()
	target, err := url.Parse(refuses(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	return serving(t, &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: log.New(io.Discard, "", 0),
	})
}

// refuses has nobody behind its address.
func refuses(t *testing.T) provider.Client {
	t.Helper()
	port, err := stage.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return clientOf(t, "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// hasNoAddress asks a name server that knows nobody.
func hasNoAddress(t *testing.T) provider.Client {
	t.Helper()
	var config net.ListenConfig
	server, err := config.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		query := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			query[2], query[3] = 0x81, 0x83 // a reply: there is no such domain
			_, _ = server.WriteTo(query[:n], from)
		}
	}()
	dialer := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}}
	p := clientOf(t, "http://provider.example.")
	p.HTTP.Transport = &http.Transport{DialContext: dialer.DialContext}
	return p
}

func knowsALargerFence(t *testing.T) provider.Client {
	t.Helper()
	p := sound(t)
	if _, err := p.Charges(t.Context(), "o-1", 1<<62); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicy_ADeclinedCardIsAskedForOnce(t *testing.T) {
	t.Parallel()
	asked := 0
	p := serving(t, provider.Handler(provider.NewLedger(), provider.Options{Before: func(Order) { asked++ }}))
	env := charging(t, guard.NewMemoryStore(), p)
	for range 2 {
		_, err := env.ExecuteActivity("ChargeCard", Order{ID: "o-1", Cents: provider.DeclinedCents})
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != TypeDeclined || !app.NonRetryable() {
			t.Errorf("error %v, want a final %s", err, TypeDeclined)
		}
	}
	if asked != 1 {
		t.Errorf("the provider was asked %d times, want once", asked)
	}
}
