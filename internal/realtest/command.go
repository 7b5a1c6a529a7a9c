package realtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build builds a command of a module of this repository, given by its folder, and returns the path of the program.
func Build(tb testing.TB, module, pkg string) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "program")
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-buildvcs=false", "-o", path, pkg) //nolint:gosec // ours
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}

// Command starts a program for this test, and returns when it answers at a URL, or at once without one. The program
// gets an interrupt at the end of the test, and what it has written last is shown if the test has failed.
func Command(tb testing.TB, url, path string, args ...string) {
	tb.Helper()
	p, err := startProcess(path, args...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.stop()
		if tb.Failed() {
			tb.Logf("%s\n%s", path, p.output.String())
		}
	})
	if url == "" {
		return
	}
	if err := p.waitReady(func(ctx context.Context) error { return answers(ctx, url) }); err != nil {
		tb.Fatal(err)
	}
}
