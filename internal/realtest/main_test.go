package realtest_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) {
	logging.Disable() // refused connections are what these tests are about
	realtest.ProgramMain(m, sleeper)
}

// sleeper is a program that leaves its process id in a file and does not end by itself.
func sleeper() {
	_ = os.WriteFile(os.Args[1], []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	time.Sleep(time.Hour)
}
