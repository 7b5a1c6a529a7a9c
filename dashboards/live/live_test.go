// Package live asks a real Prometheus that scrapes the real demo, under load and with faults, for
// everything that the boards and the rules ask for.
package live

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/onceguard/onceguard/dashboards/board"
	"github.com/onceguard/onceguard/dashboards/rules"
	"github.com/onceguard/onceguard/internal/realtest"
)

const (
	scrape = 500 * time.Millisecond
	speed  = 60 // of the rules
)

// scene is a demo that runs, and a Prometheus that looks at it.
type scene struct {
	*testing.T
	demo, prometheus string
}

func start(t *testing.T, flags ...string) *scene {
	t.Helper()
	text, err := rules.New(speed).YAML()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	addr := "127.0.0.1:" + strconv.Itoa(realtest.FreePort(t))
	s := &scene{T: t, demo: "http://" + addr}
	program := realtest.Build(t, filepath.Join("..", "..", "examples"), "./serve")
	s.prometheus = realtest.Prometheus(t, realtest.PrometheusOptions{Target: addr, Scrape: scrape, Rules: file})
	realtest.Command(t, s.demo+"/metrics", program, append([]string{"-addr", addr, "-lease", "1s"}, flags...)...)
	return s
}

// get asks the Prometheus.
func (s *scene) get(path string, parameters url.Values, into any) error {
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.prometheus+path+"?"+parameters.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// sample is a series of the answer to an instant query.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

func (v sample) number() float64 {
	n, err := strconv.ParseFloat(fmt.Sprint(v.Value[1]), 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

func (s *scene) query(expr string) ([]sample, error) {
	var found struct{ Result []sample }
	err := s.get("/api/v1/query", url.Values{"query": {expr}}, &found)
	return found.Result, err
}

// until waits until there is nothing wrong.
func (s *scene) until(limit time.Duration, wrong func() error) {
	s.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(scrape) {
		err := wrong()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.Error(err)
			return
		}
	}
}

// answers says what is wrong with the answer to a query: it must have a number.
func (s *scene) answers(expr string) error {
	found, err := s.query(expr)
	switch {
	case err != nil:
		return fmt.Errorf("%w\n%s", err, expr)
	case !slices.ContainsFunc(found, func(v sample) bool { return !math.IsNaN(v.number()) }):
		return fmt.Errorf("no data, or nothing but NaN\n%s", expr)
	}
	return nil
}

func TestCase_O3_EveryPanelVariableAndAlertHasDataOfTheDemo(t *testing.T) {
	s := start(t, "-every", "1s", "-rate", "4")
	boards, err := board.Load(filepath.Join("..", ""))
	if err != nil || len(boards) != 3 {
		t.Fatalf("%d boards, %v", len(boards), err)
	}
	const patience = 90 * time.Second
	began := time.Now()
	for _, b := range boards {
		values := b.All("30s", "10m")
		for _, v := range b.Templating.List {
			if v.Type == "query" {
				s.until(patience, func() error { return s.variable(b, v, values) })
			}
		}
		for _, p := range b.Queries() {
			for _, target := range p.Targets {
				expr, err := board.Expand(target.Expr, values)
				if err != nil {
					t.Fatal(err)
				}
				s.until(max(10*time.Second, patience-time.Since(began)), func() error {
					if err := s.answers(expr); err != nil {
						return fmt.Errorf("board %q, panel %d %q: %w", b.Title, p.ID, p.Title, err)
					}
					return nil
				})
			}
		}
	}
	s.rulesEvaluate()
}

// variable says what is wrong with the choices of a variable.
func (s *scene) variable(b board.Board, v board.Variable, values map[string]string) error {
	selector, label, err := v.LabelValues()
	if err != nil {
		return err
	}
	if selector, err = board.Expand(selector, values); err != nil {
		return err
	}
	var choices []string
	err = s.get("/api/v1/label/"+label+"/values", url.Values{"match[]": {selector}}, &choices)
	if err == nil && len(choices) == 0 {
		err = fmt.Errorf("board %q: variable %s has no choices: %s", b.Title, v.Name, selector)
	}
	return err
}

// rulesEvaluate wants every rule to have been evaluated without an error.
func (s *scene) rulesEvaluate() {
	s.Helper()
	var found struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	s.until(10*time.Second, func() error {
		if err := s.get("/api/v1/rules", nil, &found); err != nil {
			return err
		}
		n := 0
		for _, g := range found.Groups {
			for _, r := range g.Rules {
				n++
				if r.Health != "ok" {
					return fmt.Errorf("rule %s is %q: %s", r.Name, r.Health, r.LastError)
				}
			}
		}
		if want := len(rules.New(1).Groups[0].Rules) + len(rules.New(1).Groups[1].Rules); n != want {
			return fmt.Errorf("%d rules, want %d", n, want)
		}
		return nil
	})
}
