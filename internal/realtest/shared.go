package realtest

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// shared holds the servers of the whole test binary.
var shared struct {
	main     atomic.Bool // Main runs, so somebody will stop them
	mu       sync.Mutex
	stop     []func()
	redis    func() (*redisProcess, error)
	temporal func() (*TemporalServer, error)
}

func init() {
	shared.redis = sync.OnceValues(func() (*redisProcess, error) {
		r, err := startRedis()
		if err == nil {
			stopLater(r.remove)
		}
		return r, err
	})
	shared.temporal = sync.OnceValues(func() (*TemporalServer, error) {
		s, err := startTemporal()
		if err == nil {
			stopLater(s.remove)
		}
		return s, err
	})
}

func stopLater(stop func()) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.stop = append(shared.stop, stop)
}

// Main runs the tests of a package, stops the shared servers and exits. It fails
// the package when a goroutine is left behind. It is the whole body of a TestMain.
func Main(m *testing.M) {
	shared.main.Store(true)
	code := m.Run()
	stopShared()
	if code == 0 {
		if err := leaked(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked names the goroutines that are left. A client that dialed in vain needs a
// second or two to notice that it is closed.
func leaked() (err error) {
	if os.Getenv("ONCEGUARD_IGNORE_LEAKS") == "1" {
		return nil // of a library in a version that is not ours
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for _, stop := range shared.stop {
		stop()
	}
}

func needMain(tb testing.TB) {
	tb.Helper()
	if !shared.main.Load() {
		tb.Fatal("shared servers need: func TestMain(m *testing.M) { realtest.Main(m) }")
	}
}
