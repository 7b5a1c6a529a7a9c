// Package realtest starts real servers for tests: a private redis-server, a
// Temporal dev server, and listeners that lose, delay or swallow what is sent
// to them.
//
// Every server listens on a free port of 127.0.0.1, answers before the call
// that starts it returns, and is gone when the test ends:
//
//	func TestStore(t *testing.T) {
//		srv := realtest.Redis(t)
//		store, err := redisx.New(srv.Client(t), redisx.Options{})
//		...
//		srv.Kill() // an outage in mid-test
//	}
//
// A server per test is the simple form. Where the start is too dear, the tests
// of a package share one, each with keys, task queues and workflow ids of its
// own; this needs
//
//	func TestMain(m *testing.M) { realtest.Main(m) }
//
// and then [SharedRedis] and [SharedTemporal].
//
// # Which executable
//
// The path in the environment variable ONCEGUARD_REDIS_SERVER or
// ONCEGUARD_TEMPORAL, else redis-server or temporal on the PATH, else (Temporal
// only) the CLI that tools/temporal pins. Where none is found the test is
// skipped with the reason, or fails when ONCEGUARD_REQUIRE_SERVERS=1, which
// `make test` sets.
//
// # If the test binary is killed
//
// On Linux the servers die with it. Elsewhere a test binary that is killed, or
// runs into go test's time limit, leaves them behind.
package realtest
