package realtest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Blackhole listens until the test ends, accepts every connection, reads what
// is sent and never answers. It returns its address.
func Blackhole(tb testing.TB) string {
	tb.Helper()
	return serve(tb, &conns{}, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
}

// serve listens until the test ends and hands each connection to handle, in a
// goroutine of its own. It returns the address.
func serve(tb testing.TB, open *conns, handle func(net.Conn)) string {
	tb.Helper()
	l, err := listen()
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if open.add(conn) {
				running.Go(func() {
					defer open.remove(conn)
					handle(conn)
				})
			}
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		open.refuse(true)
		running.Wait()
	})
	return l.Addr().String()
}

// conns is the set of open connections.
type conns struct {
	mu      sync.Mutex
	set     map[net.Conn]struct{}
	refused bool
}

// add takes a connection in, or closes it and says false while refusing.
func (c *conns) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused {
		_ = conn.Close()
		return false
	}
	if c.set == nil {
		c.set = make(map[net.Conn]struct{})
	}
	c.set[conn] = struct{}{}
	return true
}

func (c *conns) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.set, conn)
	_ = conn.Close()
}

// refuse closes every connection, and new ones too from then on if refused.
func (c *conns) refuse(refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = refused
	for conn := range c.set {
		_ = conn.Close()
	}
}
