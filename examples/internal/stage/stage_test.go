package stage_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/examples/internal/stage"
	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) {
	realtest.ProgramMain(m, func() { stage.MainOfTwo("example", example, work) })
}

// example starts what an example may need, says where it is, and is not done until it is killed.
func example(ctx context.Context, env *stage.Env) error {
	if _, err := stage.StartWorker(greeting{Word: "hello"}); err != nil {
		return err
	}
	fmt.Printf("server %s\n", env.Temporal)
	<-ctx.Done()
	return nil
}

type greeting struct{ Word string }

func work(ctx context.Context, g greeting) error {
	fmt.Printf("worker %d %s\n", os.Getpid(), g.Word)
	<-ctx.Done()
	return nil
}

func TestRun_RefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"-guard=maybe":          "on or off",
		"-nothing":              "not defined",
		"-temporal=127.0.0.1:1": "127.0.0.1:1",
	} {
		err := stage.Run(t.Context(), "example", []string{arg}, func(context.Context, *stage.Env) error {
			t.Errorf("%s: the example ran", arg)
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", arg, err, want)
		}
	}
	if err := stage.Run(t.Context(), "example", []string{"-help"}, nil); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help: error %v, want ErrHelp", err)
	}
}

// These have the environment and the working directory to themselves.

func TestFindCLI_TakesTheVariableThenThePathThenTheOneThatIsPinned(t *testing.T) {
	cli := filepath.Join(t.TempDir(), "temporal")
	if err := os.WriteFile(cli, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(cli))
	t.Setenv("ONCEGUARD_TEMPORAL", "")
	wantCLI(t, cli, "")

	other := filepath.Join(t.TempDir(), "other")
	if err := os.Link(cli, other); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ONCEGUARD_TEMPORAL", other)
	wantCLI(t, other, "")

	t.Setenv("ONCEGUARD_TEMPORAL", "")
	t.Setenv("PATH", t.TempDir())
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	wantCLI(t, "", filepath.Join(root, "tools", "temporal"))
}

func wantCLI(t *testing.T, path, pinned string) {
	t.Helper()
	gotPath, gotPinned, err := stage.FindCLI()
	if err != nil || gotPath != path || gotPinned != pinned {
		t.Errorf("found %q, pinned %q, error %v, want %q and %q", gotPath, gotPinned, err, path, pinned)
	}
}

func TestFindCLI_SaysWhatToDoWhereThereIsNone(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("ONCEGUARD_TEMPORAL", "")
	t.Chdir(t.TempDir())
	if _, _, err := stage.FindCLI(); err == nil || !strings.Contains(err.Error(), "ONCEGUARD_TEMPORAL") {
		t.Errorf("error %v, want one that names the variable", err)
	}
	t.Setenv("ONCEGUARD_TEMPORAL", filepath.Join(t.TempDir(), "nowhere"))
	if path, _, err := stage.FindCLI(); err == nil {
		t.Errorf("found %q by a variable that points nowhere", path)
	}
}
