package realtest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy passes bytes between its clients and a server, and fails when told to.
type Proxy struct {
	target, addr string
	open         conns
	ended        <-chan struct{}

	mu    sync.Mutex
	delay time.Duration
	drops []*drop
}

// drop is an order to lose one reply.
type drop struct {
	containing []byte
	done       chan struct{}
}

// LossyProxy passes bytes to the target address until the test ends.
func LossyProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p := &Proxy{target: target, ended: tb.Context().Done()}
	p.addr = serve(tb, &p.open, p.handle)
	return p
}

// Addr is where the clients connect.
func (p *Proxy) Addr() string { return p.addr }

// DropReply loses the reply to the next request whose bytes contain the text,
// such as "evalsha" or a key, then closes that connection: the server has
// applied the request and the client reads EOF. It happens once per call; the
// returned channel is closed when it has.
//
// The text must be in one read of the socket, which holds for requests of a
// few kilobytes. A pipeline is one request, and all its replies are lost.
func (p *Proxy) DropReply(containing string) (dropped <-chan struct{}) {
	d := &drop{containing: []byte(containing), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops = append(p.drops, d)
	return d.done
}

// Delay holds every reply back for so long, from now on; 0 ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes the connections that are open now.
func (p *Proxy) Cut() { p.open.refuse(false) }

// Down closes every connection, and new ones at once, until Up.
func (p *Proxy) Down() { p.open.refuse(true) }

// Up ends a Down.
func (p *Proxy) Up() { p.open.refuse(false) }

// link is one client's connection and the one that it has to the server.
type link struct {
	client, server net.Conn

	mu   sync.Mutex
	drop *drop // the next reply is to be lost
}

func (p *Proxy) handle(client net.Conn) {
	server, err := net.Dial("tcp", p.target) //nolint:noctx // a test server on this machine
	if err != nil || !p.open.add(server) {
		return
	}
	defer p.open.remove(server)
	l := &link{client: client, server: server}
	var requests sync.WaitGroup
	requests.Go(func() {
		defer p.open.remove(server) // ends the replies
		pass(server, client, func(b []byte) bool { l.expect(p.match(b)); return true })
	})
	pass(client, server, func([]byte) bool { return p.reply(l) })
	p.open.remove(client) // ends the requests
	requests.Wait()
}

// pass copies from src to dst while let says so, until one of them ends.
func pass(dst, src net.Conn, let func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && !let(buf[:n]) {
			return
		}
		if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// match takes the first order that fits the request.
func (p *Proxy) match(request []byte) *drop {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, d := range p.drops {
		if bytes.Contains(request, d.containing) {
			p.drops = append(p.drops[:i], p.drops[i+1:]...)
			return d
		}
	}
	return nil
}

// reply says whether a reply may pass, after the delay.
func (p *Proxy) reply(l *link) bool {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-p.ended:
		}
	}
	d := l.expected()
	if d == nil {
		return true
	}
	// The client must see the loss before the test does.
	_ = l.client.Close()
	close(d.done)
	return false
}

// expect notes that the request on its way is one whose reply is to be lost.
func (l *link) expect(d *drop) {
	if d == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop = d
}

func (l *link) expected() *drop {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drop
}
