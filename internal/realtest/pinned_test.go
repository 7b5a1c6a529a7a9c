package realtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPinned_IsMissingWhereTheModuleIsAbsent(t *testing.T) {
	t.Parallel()
	if _, err := pinned(t.TempDir()); !errors.Is(err, errMissing) {
		t.Errorf("got %v", err)
	}
}

func TestPinned_IsMissingWhereItDoesNotBuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pinned(dir); !errors.Is(err, errMissing) {
		t.Errorf("got %v", err)
	}
}
