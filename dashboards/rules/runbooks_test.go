package rules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/dashboards/internal/series"
	"github.com/onceguard/onceguard/dashboards/rules"
)

const pages = "../../docs/runbooks"

func TestRunbooks_EveryAlertHasItsPageAndEveryPageItsAlert(t *testing.T) {
	var paged []string
	for _, f := range pageFiles(t) {
		paged = append(paged, alertOf(f))
	}
	if alerts := alertNames(); !slices.Equal(paged, alerts) {
		t.Fatalf("pages in docs/runbooks: %v\nalerts:                 %v", paged, alerts)
	}
}

func TestRunbooks_HaveTheirPartsAndThreeCommands(t *testing.T) {
	index := read(t, filepath.Join(pages, "README.md"))
	for _, f := range pageFiles(t) {
		text := read(t, f)
		for _, part := range []string{"# " + alertOf(f) + "\n", "## In money\n", "## First three commands\n", "## Decide\n"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is missing", alertOf(f), part)
			}
		}
		if commands := strings.Count(text, "   ```\n"); commands != 3 {
			t.Errorf("%s: %d commands, want 3", alertOf(f), commands)
		}
		if rows := len(regexp.MustCompile(`(?m)^\|.+\|.+\|.+\|$`).FindAllString(text, -1)); rows < 4 {
			t.Errorf("%s: the decision table has %d lines", alertOf(f), rows)
		}
		if !strings.Contains(index, "("+alertOf(f)+".md)") {
			t.Errorf("%s is not in the list of README.md", alertOf(f))
		}
	}
}

// Whoever copies a query at three at night must get an answer.
func TestRunbooks_QueriesNameOnlySeriesThatExist(t *testing.T) {
	catalog, err := series.Fresh()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range pageFiles(t) {
		for _, block := range regexp.MustCompile("(?s)```promql\n(.+?)```").FindAllStringSubmatch(read(t, f), -1) {
			for query := range strings.Lines(strings.TrimSpace(block[1])) {
				missing, err := catalog.Missing(query)
				if err != nil || len(missing) > 0 {
					t.Errorf("%s: %s: missing %v, %v", alertOf(f), query, missing, err)
				}
			}
		}
	}
}

// The log queries quote whole messages, and name fields that lines have.
func TestRunbooks_QuoteLogLinesAsTheyAre(t *testing.T) {
	messages, fields := read(t, "../../telemetry/logs.go"), read(t, "../../telemetry/names.go")
	quoted := 0
	for _, f := range pageFiles(t) {
		text := read(t, f)
		for _, m := range regexp.MustCompile(`\.msg == ("onceguard: [^"]+").*?\{(.+?)\}`).FindAllStringSubmatch(text, -1) {
			quoted++
			if !strings.Contains(messages, "= "+m[1]+"\n") {
				t.Errorf("%s: no log line says %s", alertOf(f), m[1])
			}
			for field := range strings.SplitSeq(m[2], ", ") {
				if field != "time" && !strings.Contains(fields, `= "`+field+`"`) {
					t.Errorf("%s: log lines have no field %s", alertOf(f), field)
				}
			}
		}
	}
	if quoted == 0 {
		t.Error("no page quotes a log line")
	}
}

func TestRunbooks_LinksLeadSomewhere(t *testing.T) {
	for _, f := range append(pageFiles(t), filepath.Join(pages, "README.md")) {
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(read(t, f), -1) {
			if strings.HasPrefix(m[1], "https://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(pages, m[1])); err != nil {
				t.Errorf("%s: %v", filepath.Base(f), err)
			}
		}
	}
}

func pageFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pages, "Onceguard*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages in %s: %v", pages, err)
	}
	return files
}

func alertOf(file string) string { return strings.TrimSuffix(filepath.Base(file), ".md") }

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func alertNames() []string {
	var names []string
	for _, r := range rules.New(1).Alerts() {
		names = append(names, r.Alert)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
