package realtest_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceguard/onceguard/internal/realtest"
)

// TestRedis_DiesWithAKilledTestBinary runs this binary again: the inner one
// starts a server and waits, the outer one kills it with no chance to clean up.
func TestRedis_DiesWithAKilledTestBinary(t *testing.T) {
	if os.Getenv("ONCEGUARD_INNER") != "" {
		info := realtest.Redis(t).Client(t).InfoMap(t.Context(), "server").Val()
		_, _ = os.Stdout.WriteString("pid " + info["Server"]["process_id"] + "\n")
		<-t.Context().Done()
		return
	}
	t.Parallel()
	realtest.Redis(t) // skips where there is no redis-server

	inner := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	inner.Env = append(os.Environ(), "ONCEGUARD_INNER=1")
	stdout, err := inner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := inner.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(stdout); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	_ = inner.Process.Kill()
	_ = inner.Wait()
	if pid == 0 {
		t.Fatal("the inner binary named no server")
	}

	eventually(t, "redis-server, process "+strconv.Itoa(pid)+", is dead", func() bool {
		return dead(pid)
	})
}

// dead reports that a process is gone, or has ended and nobody waited for it.
func dead(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(stat), ") ") // after the name, in brackets
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// TestRedis_OutlivesTheThreadThatAsked: a child killed with its parent is
// killed with the parent's *thread*, and a goroutine that ends locked to its
// thread ends the thread.
func TestRedis_OutlivesTheThreadThatAsked(t *testing.T) {
	t.Parallel()
	thread := make(chan int)
	srv := make(chan *realtest.RedisServer, 1)
	go onMortalThread(func() {
		defer close(srv)
		thread <- syscall.Gettid()
		srv <- realtest.Redis(t)
	})
	task := "/proc/self/task/" + strconv.Itoa(<-thread)
	s, ok := <-srv
	if !ok {
		t.SkipNow() // there is no redis-server
	}
	eventually(t, "the thread is gone", func() bool {
		_, err := os.Stat(task)
		return errors.Is(err, os.ErrNotExist)
	})
	if err := s.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// onMortalThread runs f on a thread that ends with it. The main thread never
// does: when we are on it, we stay there, and f goes to another.
func onMortalThread(f func()) {
	runtime.LockOSThread()
	if syscall.Gettid() == os.Getpid() {
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() {
			defer close(done)
			onMortalThread(f)
		}()
		<-done
		return
	}
	f()
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(10 * time.Second)
	for !is() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatal("never came true: " + what)
		}
	}
}
