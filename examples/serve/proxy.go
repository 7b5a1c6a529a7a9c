package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// proxy is the way to Redis, with the faults of a network. It is safe for use by many goroutines.
type proxy struct {
	target, addr string
	running      sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while new connections are refused
	open     map[net.Conn]bool
	closed   bool
	delay    time.Duration
	stalled  chan struct{} // closed when bytes flow
}

func newProxy(target string) (*proxy, error) {
	flowing := make(chan struct{})
	close(flowing)
	p := &proxy{target: target, addr: "127.0.0.1:0", open: map[net.Conn]bool{}, stalled: flowing}
	return p, p.listen()
}

// listen takes connections, the second time at the address of the first.
func (p *proxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr) //nolint:noctx // takes no time
	if err != nil {
		return err
	}
	p.listener, p.addr = listener, listener.Addr().String()
	p.running.Go(func() { p.accept(listener) })
	return nil
}

func (p *proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer p.forget(client)
	if !p.remember(client) {
		return
	}
	server, err := net.Dial("tcp", p.target) //nolint:noctx // Redis is near; close ends it
	if err != nil {
		return
	}
	defer p.forget(server)
	if !p.remember(server) {
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() {
		defer p.forget(server)
		p.pass(server, client, false)
	})
	p.pass(client, server, true)
	p.forget(client)
	requests.Wait()
}

func (p *proxy) pass(dst io.Writer, src io.Reader, replies bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := src.Read(buffer)
		if err != nil {
			return
		}
		p.hold(replies)
		if _, err := dst.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// hold holds bytes back for as long as the fault says. Only replies are delayed.
func (p *proxy) hold(reply bool) {
	p.mu.Lock()
	stalled, delay := p.stalled, p.delay
	p.mu.Unlock()
	<-stalled
	if reply && delay > 0 {
		<-time.After(delay)
	}
}

func (p *proxy) remember(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return false
	}
	p.open[conn] = true
	return true
}

func (p *proxy) forget(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, conn)
	_ = conn.Close()
}

// stall holds everything back, in both directions, until flow: a server that stands still.
func (p *proxy) stall() (flow func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	flowing := make(chan struct{})
	p.stalled = flowing
	return func() error { close(flowing); return nil }
}

// slow holds each reply back for so long.
func (p *proxy) slow(delay time.Duration) (quick func() error) {
	set := func(d time.Duration) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.delay = d
		return nil
	}
	_ = set(delay)
	return func() error { return set(0) }
}

// cut closes all connections and refuses new ones, until mend.
func (p *proxy) cut() (mend func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut()
	return p.listen
}

func (p *proxy) shut() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for conn := range p.open {
		_ = conn.Close()
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.shut()
	p.mu.Unlock()
	p.running.Wait()
}
