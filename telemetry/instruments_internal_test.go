package telemetry

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// documented are the lines of the table of metrics in the package comment, by fields.
func documented(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "//\tonceguard_") {
			lines = append(lines, strings.Fields(strings.TrimPrefix(line, "//")))
		}
	}
	return lines
}

// line is what the package comment says of an instrument.
func (i instrument) line() []string {
	kinds := map[kind]string{
		kindCounter: "counter", kindLevel: "gauge", kindReading: "gauge", kindHistogram: "histogram", kindDuration: "histogram",
	}
	unit := i.unit
	if unit == "" {
		unit = "-"
	}
	return append([]string{i.name, i.otel, unit, kinds[i.kind]}, strings.Fields(strings.Join(i.allLabels(), ", "))...)
}

func TestInstruments_ThePackageCommentHasTheTable(t *testing.T) {
	t.Parallel()
	lines := documented(t)
	for _, i := range instruments() {
		if !slices.ContainsFunc(lines, func(line []string) bool { return slices.Equal(line, i.line()) }) {
			t.Errorf("doc.go lacks the line\n\t%s", strings.Join(i.line(), "  "))
		}
	}
	if len(lines) != len(instruments()) {
		t.Errorf("doc.go has %d metrics, there are %d", len(lines), len(instruments()))
	}
}

// translated is the name that the standard translation makes of one of OpenTelemetry.
func (i instrument) translated() string {
	name := strings.ReplaceAll(i.otel, ".", "_")
	switch i.unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if i.kind == kindCounter {
		name += "_total"
	}
	return name
}

func TestInstruments_TheTwoNamesOfOneAreTranslationsOfEachOther(t *testing.T) {
	t.Parallel()
	for _, i := range instruments() {
		if got := i.translated(); got != i.name {
			t.Errorf("%s becomes %s in Prometheus, want %s", i.otel, got, i.name)
		}
		if i.help == "" || (len(i.buckets) > 0) != (i.kind == kindHistogram || i.kind == kindDuration) {
			t.Errorf("%s: help %q, %d buckets", i.name, i.help, len(i.buckets))
		}
	}
}
