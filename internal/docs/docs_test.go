// Package docs holds the documents of the repository to what they speak of.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testsByName maps every test function of the repository to its file.
func testsByName(t *testing.T) map[string][]string {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	tests := map[string][]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, match := range declared.FindAllStringSubmatch(read(t, path), -1) {
			tests[match[1]] = append(tests[match[1]], filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func TestCases_EachIsListedWithTestsThatExist(t *testing.T) {
	tests := testsByName(t)
	listed := map[string]bool{}
	row := regexp.MustCompile(`(?m)^\| ([A-Z][0-9]+) \|.*$`)
	named := regexp.MustCompile("`(Test\\w+)`")
	for _, line := range row.FindAllStringSubmatch(read(t, "docs/cases.md"), -1) {
		names := named.FindAllStringSubmatch(line[0], -1)
		if len(names) == 0 {
			t.Errorf("case %s has no test", line[1])
		}
		for _, name := range names {
			listed[name[1]] = true
			if len(tests[name[1]]) == 0 {
				t.Errorf("case %s names %s, which does not exist", line[1], name[1])
			}
		}
	}
	for name, files := range tests {
		if strings.HasPrefix(name, "TestCase_") && !listed[name] {
			t.Errorf("%s in %s is not listed in docs/cases.md", name, files)
		}
	}
}

func TestReadme_QuickstartIsTheExampleThatRuns(t *testing.T) {
	readme, program := read(t, "README.md"), read(t, "examples/quickstart/main.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) == 0 {
		t.Fatal("the README has no Go block")
	}
	if first := blocks[0][1]; !strings.Contains(program, first) {
		t.Errorf("the README's first Go block is not part of examples/quickstart/main.go:\n%s", first)
	}
}

func TestDocuments_LinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+?)(#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```")
	paths := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "AGENTS.md", "examples/README.md"}
	more, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range more {
		paths = append(paths, "docs/"+filepath.Base(path))
	}
	for _, path := range paths {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, path), ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			target := filepath.Join(root, filepath.Dir(path), match[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", path, match[1])
			}
		}
	}
}

func TestDocuments_SpeakInTheWordsOfThePackage(t *testing.T) {
	doc := read(t, "guard/doc.go")
	for _, word := range []string{"reserve", "renew", "replace", "release", "takeover", "tombstone", "fence", "retention"} {
		if !strings.Contains(strings.ToLower(doc), word) {
			t.Errorf("guard/doc.go does not explain %q", word)
		}
	}
	if agents := strings.Count(read(t, "AGENTS.md"), "\n"); agents > 120 {
		t.Errorf("AGENTS.md has %d lines, at most 120 are read", agents)
	}
}

func TestReadme_CommandsAreTargetsOfTheMakefile(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, match := range regexp.MustCompile(`(?m)^make (\w+)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		if !slices.Contains(regexp.MustCompile(`(?m)^(\w+):`).FindAllString(makefile, -1), match[1]+":") {
			t.Errorf("the README names make %s, the Makefile has no such target", match[1])
		}
	}
}
