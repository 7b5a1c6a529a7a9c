package realtest

import (
	"fmt"
	"testing"
)

// Promtool returns the path of Prometheus' promtool: that in ONCEGUARD_PROMTOOL, else the one on
// the PATH. Without one it skips the test, or fails it where ONCEGUARD_REQUIRE_SERVERS is 1.
func Promtool(tb testing.TB) string {
	tb.Helper()
	path, err := find("ONCEGUARD_PROMTOOL", "promtool")
	if err != nil {
		giveUp(tb, fmt.Errorf("%w; install it (apt-get install prometheus, brew install prometheus) "+
			"or set ONCEGUARD_PROMTOOL to its path", err))
	}
	return path
}
