package realtest_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) {
	logging.Disable() // refused connections are what these tests are about
	realtest.Main(m)
}
