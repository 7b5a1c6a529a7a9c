package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

// The first of two clicks to arrive runs the action, and which one that is is
// not for the test to say.
func TestQuickstart_ChargesOnceForThreeCalls(t *testing.T) {
	output := capture(t, main)
	for text, want := range map[string]int{
		"receipt-1, executed, error: <nil>\n": 1,
		"receipt-1, replayed, error: <nil>\n": 2,
		"retry        receipt-1, replayed":    1,
		"charges: 1\n":                        1,
	} {
		if got := strings.Count(output, text); got != want {
			t.Errorf("%q is printed %d times, want %d, in:\n%s", text, got, want, output)
		}
	}
}

// capture returns what f prints. It fits in a pipe.
func capture(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	f()
	os.Stdout = stdout
	_ = w.Close()
	output, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}
