package redisx_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

// nextBuild builds this package's tests as the next release: the one that writes
// the next version of the record.
func nextBuild(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, err := filepath.Abs("../guard/store.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	now := fmt.Sprintf("const SchemaVersion = %d\n", guard.SchemaVersion)
	next := fmt.Sprintf("const SchemaVersion = %d\n", guard.SchemaVersion+1)
	if strings.Count(string(text), now) != 1 {
		t.Fatalf("%s does not have %q once", source, now)
	}
	changed := filepath.Join(dir, "store.go")
	overlay := filepath.Join(dir, "overlay.json")
	doc, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, changed, strings.Replace(string(text), now, next, 1))
	write(t, overlay, string(doc))
	binary := filepath.Join(dir, "next.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build of the next release: %v\n%s", err, out)
	}
	return binary
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPeerProcess makes one call, as another release, for the test below.
func TestPeerProcess(t *testing.T) {
	addr, key := os.Getenv("PEER_REDIS"), os.Getenv("PEER_KEY")
	if addr == "" {
		t.Skip("started by other tests")
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	c := newCharger(t, rdb, guard.OnInFlight(guard.Refuse), guard.WithRetention(time.Hour))
	result, err := c.DoResult(t.Context(), key, func(context.Context) (int, error) { return 2, nil })
	fmt.Printf("peer: version %d, %s %d, in progress %t\n",
		guard.SchemaVersion, result.How, result.Value, errors.Is(err, guard.ErrInProgress))
}

// peer is what a call of another build said.
func peer(t *testing.T, binary, addr, key string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestPeerProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "PEER_REDIS="+addr, "PEER_KEY="+key)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("peer: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if said, ok := strings.CutPrefix(line, "peer: "); ok {
			return strings.TrimSpace(said)
		}
	}
	t.Fatalf("the peer said nothing:\n%s", out)
	return ""
}

func TestUpgrade_TwoReleasesOnOneKeyNeverRunItTwice(t *testing.T) {
	t.Parallel()
	server := realtest.SharedRedis(t)
	binary := nextBuild(t)
	c := newCharger(t, server.Client(t), guard.OnInFlight(guard.Refuse), guard.WithRetention(time.Hour))

	t.Run("the next release replays the result of this one", func(t *testing.T) {
		key := newKey(t)
		if _, err := c.charge(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if got := peer(t, binary, server.Addr(), key); got != "version 2, replayed 1, in progress false" {
			t.Errorf("the next release: %s", got)
		}
	})
	t.Run("to the next release a reservation of this one is in flight", func(t *testing.T) {
		key := newKey(t)
		done := c.inBackground(t, key, 3*time.Second)
		if got := peer(t, binary, server.Addr(), key); got != "version 2, refused 0, in progress true" {
			t.Errorf("the next release: %s", got)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("to this release a result of the next one is in flight", func(t *testing.T) {
		key := newKey(t)
		if got := peer(t, binary, server.Addr(), key); got != "version 2, executed 2, in progress false" {
			t.Fatalf("the next release: %s", got)
		}
		before := c.charges.Load()
		if _, err := c.charge(t.Context(), key); !errors.Is(err, guard.ErrInProgress) || c.charges.Load() != before {
			t.Errorf("got %v after %d charges, want in progress and none", err, c.charges.Load()-before)
		}
		if got := peer(t, binary, server.Addr(), key); got != "version 2, replayed 2, in progress false" {
			t.Errorf("the next release again: %s", got)
		}
	})
}
