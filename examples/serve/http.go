package main

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/onceguard/onceguard/telemetry"
)

// listen serves the pages.
func (w *world) listen(ctx context.Context) (addr string, err error) {
	var options []telemetry.LeasesOption
	if w.traceURL != "" {
		options = append(options, telemetry.TraceURL(w.traceURL))
	}
	leases, err := telemetry.NewLeasesHandler(w.guard, options...)
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.signals.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.Handle("GET /leases", leases)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /{$}", func(rw http.ResponseWriter, _ *http.Request) { _ = index.Execute(rw, faults()) })
	mux.HandleFunc("POST /fault/{name}", func(rw http.ResponseWriter, r *http.Request) {
		w.ask(ctx, rw, r)
	})
	// A page of another origin in the same browser causes no faults.
	return w.serveHTTP(ctx, w.addr, http.NewCrossOriginProtection().Handler(mux))
}

// ask causes a fault that somebody asks for, for as long as ?for= says.
func (w *world) ask(ctx context.Context, rw http.ResponseWriter, r *http.Request) {
	f, ok := faultNamed(r.PathValue("name"))
	if !ok {
		http.Error(rw, "no such fault", http.StatusNotFound)
		return
	}
	var length time.Duration
	if text := r.FormValue("for"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		if err != nil || length <= 0 || length > time.Hour || f.leases == 0 {
			http.Error(rw, "for is a time up to 1h, of a fault whose length is not fixed", http.StatusBadRequest)
			return
		}
	}
	w.cause(ctx, f, length)
	rw.WriteHeader(http.StatusAccepted)
	_, _ = fmt.Fprintln(rw, f.what)
}

var index = template.Must(template.New("").Parse(indexPage))

const indexPage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>onceguard under load</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }
button { min-width: 5rem; font: inherit } td { padding: .15rem .5rem .15rem 0; vertical-align: top }
</style>
<h1>onceguard under load</h1>
<p><a href="/leases">leases</a> · <a href="/metrics">metrics</a></p>
<h2>Faults</h2>
<table>{{range .}}
<tr><td><form method="post" action="/fault/{{.Name}}" target="answer"><button>{{.Name}}</button></form></td><td>{{.What}}</td></tr>{{end}}
</table>
<iframe name="answer" title="answer" height="60" style="border:0;width:100%"></iframe>
`
