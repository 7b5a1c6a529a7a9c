package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/examples/internal/setup"
	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) { realtest.Main(m) }

func play(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	args := append([]string{"-temporal", realtest.SharedTemporal(t).Addr()}, flags...)
	err := setup.Run(t.Context(), "approval", args, &out, run)
	t.Log(out.String())
	return out.String(), err
}

// stores are the flags that choose where the guard has its records.
func stores(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{"in memory": nil, "on Redis": {"-redis", realtest.SharedRedis(t).Addr()}}
}

func wantLines(t *testing.T, out string, lines map[string]int) {
	t.Helper()
	for text, want := range lines {
		if got := strings.Count(out, text); got != want {
			t.Errorf("%q is printed %d times, want %d", text, got, want)
		}
	}
}

func TestApproval_OneRequestAndItsDecisionForBoth(t *testing.T) {
	t.Parallel()
	for name, flags := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := play(t, flags...)
			if err != nil {
				t.Error(err)
			}
			wantLines(t, out, map[string]int{
				"sends a request": 1,
				"has the decision on request 1: approved true": workflows,
				"1 requests were sent":                         1,
			})
		})
	}
}

func TestApproval_WithoutTheGuardFails(t *testing.T) {
	t.Parallel()
	out, err := play(t, "-guard=off")
	if !errors.Is(err, setup.ErrInvariant) {
		t.Errorf("error %v, want ErrInvariant", err)
	}
	wantLines(t, out, map[string]int{"sends a request": workflows, "2 requests were sent": 1})
}
