package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun_CommittedFilesAreFresh(t *testing.T) {
	if err := run(".", false, 0); err != nil {
		t.Fatal(err)
	}
}

func TestRun_SaysWhichFileIsStaleAndUpdateMendsIt(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "rules"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, false, 0); err == nil {
		t.Fatal("a missing file is not noticed")
	}
	if err := run(dir, true, 0); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(dir, "operations.json")
	if err := os.WriteFile(stale, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, false, 0); err == nil || !strings.Contains(err.Error(), stale+" is stale") {
		t.Fatalf("stale file: %v", err)
	}
	if err := run(dir, true, 0); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, false, 0); err != nil {
		t.Fatal(err)
	}
}
