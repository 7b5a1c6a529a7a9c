package stage

import "net"

// FreePort returns a port of 127.0.0.1 that nobody listens on. Its connection,
// closed from the server's side, keeps the system from handing the port to
// another process before the server asks for it by number.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // takes no time
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).Port
	caller, err := net.Dial("tcp", listener.Addr().String()) //nolint:noctx // takes no time
	if err != nil {
		return 0, err
	}
	defer func() { _ = caller.Close() }()
	called, err := listener.Accept()
	if err != nil {
		return 0, err
	}
	return port, called.Close()
}
