package realtest

import (
	"context"
	"net"
	"strconv"
	"testing"
)

// freePort returns a port of 127.0.0.1 that nobody listens on.
//
// Linux hands out such ports at random, so that two test binaries could get
// the same one. A connection closed from the server's side leaves the port in
// TIME_WAIT, where the system does not hand it out again, while a server that
// asks for it by number (with SO_REUSEADDR, as all do) still gets it.
func freePort() (int, error) {
	l, err := listen()
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	var dialer net.Dialer
	client, err := dialer.DialContext(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }()
	server, err := l.Accept()
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, server.Close()
}

// FreePort is a port of 127.0.0.1 for a server that needs another one, such as the
// bus of a cluster. Nobody else is given it for the next minute.
func FreePort(tb testing.TB) int {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

func listen() (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(context.Background(), "tcp", "127.0.0.1:0")
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
