package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutations_EachTextOccursOnce: a fault whose text has moved breaks nothing, and
// shows nothing.
func TestMutations_EachTextOccursOnce(t *testing.T) {
	for _, m := range mutations() {
		text, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if n := strings.Count(string(text), m.from); n != 1 {
			t.Errorf("%s: %s has its text %d times, not once:\n%s", m.name, m.file, n, m.from)
		}
		if m.from == m.to {
			t.Errorf("%s changes nothing", m.name)
		}
	}
}
