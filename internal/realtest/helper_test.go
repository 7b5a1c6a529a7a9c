package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
)

// spy is a test that fails or skips without harm to the real one.
type spy struct {
	testing.TB
	failed, skipped bool
	said            strings.Builder
}

func (s *spy) Helper()         {}
func (s *spy) Fatal(a ...any)  { s.failed = true; s.end(fmt.Sprint(a...)) }
func (s *spy) Skip(a ...any)   { s.skipped = true; s.end(fmt.Sprint(a...)) }
func (s *spy) end(text string) { s.said.WriteString(text); runtime.Goexit() }

func (s *spy) Fatalf(format string, a ...any) { s.Fatal(fmt.Sprintf(format, a...)) }

// fakeTB runs test on a spy, to its end.
func fakeTB(t *testing.T, test func(testing.TB)) *spy {
	t.Helper()
	s := &spy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(s)
	}()
	<-done
	return s
}

func (s *spy) mustFail(t *testing.T, saying string) {
	t.Helper()
	if !s.failed || !strings.Contains(s.said.String(), saying) {
		t.Errorf("want a failure that says %q; failed %t, said %q", saying, s.failed, s.said.String())
	}
}

func (s *spy) mustSkip(t *testing.T, saying string) {
	t.Helper()
	if !s.skipped || !strings.Contains(s.said.String(), saying) {
		t.Errorf("want a skip that says %q; skipped %t, said %q", saying, s.skipped, s.said.String())
	}
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func mustBeFree(t *testing.T, addr string) {
	t.Helper()
	if conn, err := dial(t.Context(), addr); err == nil {
		_ = conn.Close()
		t.Errorf("somebody still listens on %s", addr)
	}
}
