// Command mutations breaks the protocol on purpose, one fault at a time, and
// checks that a named test notices. It changes no file: the go command reads the
// broken one through an overlay.
//
//	go -C tools run ./mutations          all of them
//	go -C tools run ./mutations wait     those whose name has "wait"
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, words []string) error {
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutations")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()

	survived, tried := 0, 0
	for _, m := range mutations() {
		if len(words) > 0 && !strings.Contains(m.name, strings.Join(words, " ")) {
			continue
		}
		tried++
		began := time.Now()
		noticed, err := m.try(ctx, root, tmp)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		verdict := "noticed by " + noticed
		if noticed == "" {
			survived++
			verdict = "SURVIVED " + m.test
		}
		fmt.Printf("%-55s %s (%s)\n", m.name, verdict, time.Since(began).Round(100*time.Millisecond))
	}
	if survived > 0 || tried == 0 {
		return fmt.Errorf("%d of %d mutations survived", survived, tried)
	}
	fmt.Printf("all %d mutations were noticed\n", tried)
	return nil
}

// try runs the test on the broken code and returns the name of a test that
// failed, or "" if none did.
func (m mutation) try(ctx context.Context, root, tmp string) (string, error) {
	overlay, err := m.overlay(root, tmp)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "test", //nolint:gosec // the arguments are the table's
		"-overlay", overlay, "-count=1", "-timeout=2m", "-run", m.test, "./"+m.pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off", "ONCEGUARD_REQUIRE_SERVERS=1")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	if failed := regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`).FindAllSubmatch(out, -1); failed != nil {
		return string(failed[len(failed)-1][1]), nil // the innermost of the first
	}
	if panicked := regexp.MustCompile(`(?m)^panic: (?:test timed out|deadlock)`).Match(out); panicked {
		return m.test + " (hangs)", nil
	}
	return "", fmt.Errorf("the test did not run: %w\n%s", err, out)
}

// overlay writes the broken file and what the go command needs to read it.
func (m mutation) overlay(root, tmp string) (string, error) {
	path := filepath.Join(root, m.file)
	text, err := os.ReadFile(path) //nolint:gosec // a file of the table
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.from); n != 1 {
		return "", fmt.Errorf("%s has the text to break %d times, not once:\n%s", m.file, n, m.from)
	}
	broken := filepath.Join(tmp, "broken"+filepath.Ext(path))
	if err := os.WriteFile(broken, []byte(strings.Replace(string(text), m.from, m.to, 1)), 0o600); err != nil { //nolint:gosec // in tmp
		return "", err
	}
	doc, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(tmp, "overlay.json")
	return file, os.WriteFile(file, doc, 0o600)
}
