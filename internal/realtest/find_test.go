package realtest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

// No test here runs beside another: the environment is common to all.

func TestFind_MissingExecutableSkipsWithTheReason(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("ONCEGUARD_REDIS_SERVER", "")
	t.Setenv("ONCEGUARD_REQUIRE_SERVERS", "")
	fakeTB(t, startRedis).mustSkip(t, "redis-server: not found on the PATH")
}

func TestFind_MissingExecutableFailsWhereServersAreRequired(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("ONCEGUARD_REDIS_SERVER", "")
	t.Setenv("ONCEGUARD_REQUIRE_SERVERS", "1")
	fakeTB(t, startRedis).mustFail(t, "redis-server: not found on the PATH")
}

func TestFind_VariableThatPointsNowhereFailsAndIsNamed(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	t.Setenv("ONCEGUARD_REDIS_SERVER", nowhere)
	t.Setenv("ONCEGUARD_TEMPORAL", nowhere)
	t.Setenv("ONCEGUARD_REQUIRE_SERVERS", "")
	fakeTB(t, startRedis).mustFail(t, "ONCEGUARD_REDIS_SERVER")
	fakeTB(t, startTemporal).mustFail(t, "ONCEGUARD_TEMPORAL")
}

func startRedis(tb testing.TB) {
	tb.Helper()
	realtest.Redis(tb)
}

func startTemporal(tb testing.TB) {
	tb.Helper()
	realtest.Temporal(tb)
}

func TestFind_AnotherChromiumIsTakenAndNoneIsAMissingExecutable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	t.Setenv("ONCEGUARD_CHROMIUM", filepath.Join(dir, "nowhere"))
	t.Setenv("ONCEGUARD_REQUIRE_SERVERS", "")
	startChromium := func(tb testing.TB) {
		tb.Helper()
		realtest.Chromium(tb)
	}
	fakeTB(t, startChromium).mustFail(t, "ONCEGUARD_CHROMIUM")

	path := filepath.Join(dir, "google-chrome")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ONCEGUARD_CHROMIUM", "")
	if got := realtest.Chromium(t); got != path {
		t.Errorf("got %s, want %s", got, path)
	}
}
