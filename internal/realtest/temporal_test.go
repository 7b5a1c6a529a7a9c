package realtest_test

import (
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onceguard/onceguard/internal/realtest"
)

func nap(ctx workflow.Context) error { return workflow.Sleep(ctx, 50*time.Millisecond) }

func TestTemporal_RunsAWorkflowAndFiresTimersOnTime(t *testing.T) {
	t.Parallel()
	c := realtest.SharedTemporal(t).Client()
	w := worker.New(c, t.Name(), worker.Options{})
	w.RegisterWorkflow(nap)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)

	// One timer may be late on a busy machine; without the setting all are.
	best := time.Hour
	for range 5 {
		begin := time.Now()
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: t.Name()}, nap)
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Get(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(begin))
	}
	if best > 700*time.Millisecond {
		t.Errorf("a timer of 50 ms took %s at best", best)
	}
}

func TestTemporal_TakesArgumentsAndIsGoneWhenItsTestEnds(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("test", func(t *testing.T) {
		srv := realtest.Temporal(t, "--namespace", "other")
		addr = srv.Addr()
		c := srv.Dial(t, client.Options{Namespace: "other"})
		if _, err := c.CheckHealth(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
	if addr != "" {
		mustBeFree(t, addr)
	}
}

func TestTemporal_GoesAndComesBackWithItsDatabase(t *testing.T) {
	t.Parallel()
	srv := realtest.Temporal(t, "--db-filename", filepath.Join(t.TempDir(), "db"))
	c := srv.Client()
	w := worker.New(c, t.Name(), worker.Options{})
	w.RegisterWorkflow(nap)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: t.Name()}, nap)
	if err != nil {
		t.Fatal(err)
	}

	srv.Kill()
	mustBeFree(t, srv.Addr())
	srv.Start()
	srv.Start() // leaves a running server alone
	if err := run.Get(t.Context(), nil); err != nil {
		t.Errorf("the workflow of before: %v", err)
	}
}

func TestSharedTemporal_IsNobodysToKill(t *testing.T) {
	t.Parallel()
	shared := realtest.SharedTemporal(t)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	shared.Kill()
}

func TestSharedTemporal_IsOne(t *testing.T) {
	t.Parallel()
	if a, b := realtest.SharedTemporal(t), realtest.SharedTemporal(t); a != b {
		t.Errorf("two servers: %s and %s", a.Addr(), b.Addr())
	}
}
