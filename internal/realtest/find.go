package realtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// pinnedLimit bounds the look-up of the pinned Temporal CLI. Built already, it
// is found in a few seconds; the build takes minutes, which nobody expects of
// a `go test`.
const pinnedLimit = 30 * time.Second

// errMissing marks that an executable is not on this machine, as opposed to
// one that does not start.
var errMissing = errors.New("not found")

// require reports whether a missing executable fails a test, not skips it.
func require() bool { return os.Getenv("ONCEGUARD_REQUIRE_SERVERS") == "1" }

// giveUp ends the test because of err: skips it when the executable is missing
// and nobody insists on it, fails it otherwise.
func giveUp(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errMissing) && !require() {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

// findRedis returns the path of redis-server.
func findRedis() (string, error) {
	path, err := find("ONCEGUARD_REDIS_SERVER", "redis-server")
	if err != nil {
		return "", fmt.Errorf("%w; install it (apt-get install redis-server, brew install redis) "+
			"or set ONCEGUARD_REDIS_SERVER to its path", err)
	}
	return path, nil
}

// findTemporal returns the path of the Temporal CLI. The pinned one is looked
// for once per test binary.
func findTemporal() (string, error) {
	path, err := find("ONCEGUARD_TEMPORAL", "temporal")
	if !errors.Is(err, errMissing) || os.Getenv("ONCEGUARD_TEMPORAL") != "" {
		return path, err
	}
	path, err = pinnedTemporal()
	if err != nil {
		return "", fmt.Errorf("%w; run `make temporal` once, put temporal on the PATH "+
			"or set ONCEGUARD_TEMPORAL to its path", err)
	}
	return path, nil
}

// find takes the path from the environment variable, else from the PATH. A
// variable that points nowhere is a mistake to report, not a reason to skip.
func find(variable, name string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%s=%q: %w", variable, path, err)
		}
		return found, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w on the PATH", name, errMissing)
	}
	return path, nil
}

var pinnedTemporal = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	return pinned(filepath.Join(filepath.Dir(file), "..", "..", "tools", "temporal"))
})

// pinned asks the nested module in dir for its build of the Temporal CLI. The
// module is absent where the library is read from the module cache.
func pinned(dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("temporal: %w on the PATH, nor is tools/temporal here", errMissing)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if !require() {
		ctx, cancel = context.WithTimeout(ctx, pinnedLimit)
	}
	defer cancel()

	cmd := exec.CommandContext(ctx, "go", "tool", "-n", "temporal")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("temporal: %w on the PATH, and the pinned one is not built yet", errMissing)
	}
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("temporal: %w on the PATH, and the pinned one does not build: %w", errMissing, err)
	}
	return strings.TrimSpace(string(out)), nil
}
