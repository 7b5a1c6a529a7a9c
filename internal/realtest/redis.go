package realtest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a redis-server of its own process. It keeps nothing on disk,
// so what it held is lost when it ends.
type RedisServer struct {
	tb     testing.TB
	redis  *redisProcess
	shared bool
}

// redisProcess outlives its process: the same directory and port serve the next.
type redisProcess struct {
	path, dir string
	port      int
	args      []string
	process   *process
}

// Redis starts a redis-server for this test. The args are added to its command
// line and win over ours, as in Redis(t, "--maxmemory", "2mb").
func Redis(tb testing.TB, args ...string) *RedisServer {
	tb.Helper()
	r, err := startRedis(args...)
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(r.remove)
	return &RedisServer{tb: tb, redis: r}
}

// SharedRedis is one redis-server for all tests of the binary, started by the
// first that asks. Nobody may stop, pause or flush it.
func SharedRedis(tb testing.TB) *RedisServer {
	tb.Helper()
	needMain(tb)
	r, err := shared.redis()
	if err != nil {
		giveUp(tb, err)
	}
	return &RedisServer{tb: tb, redis: r, shared: true}
}

// Addr is the host and port.
func (s *RedisServer) Addr() string { return local(s.redis.port) }

// Client connects to the server until the test ends. It is go-redis with its
// own defaults; for other options, give Addr to your own client.
func (s *RedisServer) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Stop ends the server as an operator would.
func (s *RedisServer) Stop() {
	s.tb.Helper()
	s.own().process.stop()
}

// Kill ends the server as a crash would.
func (s *RedisServer) Kill() {
	s.tb.Helper()
	s.own().process.kill()
}

// Start starts the server again, empty, on the port that it had. What runs
// already stays as it is.
func (s *RedisServer) Start() {
	s.tb.Helper()
	if s.own().process.alive() {
		return
	}
	if err := s.redis.start(); err != nil {
		s.tb.Fatalf("restart redis-server: %v", err)
	}
}

// Pause freezes the server: it accepts connections and answers nothing.
func (s *RedisServer) Pause() {
	s.tb.Helper()
	if err := s.own().process.pause(); err != nil {
		s.tb.Fatalf("pause redis-server: %v", err)
	}
}

// Resume ends a Pause.
func (s *RedisServer) Resume() {
	s.tb.Helper()
	if err := s.own().process.resume(); err != nil {
		s.tb.Fatalf("resume redis-server: %v", err)
	}
}

// own is the server, if it belongs to this test alone.
func (s *RedisServer) own() *redisProcess {
	s.tb.Helper()
	if s.shared {
		s.tb.Fatal("this redis-server is shared by other tests: start one with realtest.Redis")
	}
	return s.redis
}

func startRedis(args ...string) (*redisProcess, error) {
	path, err := findRedis()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "onceguard-redis-")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	r := &redisProcess{path: path, dir: dir, port: port, args: args}
	if err := r.start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return r, nil
}

// start returns once the server answers. It asks through a socket file in its
// own directory, which is bound after the port: if the port is taken, the
// stranger behind it cannot answer for us.
func (r *redisProcess) start() error {
	socket := filepath.Join(r.dir, "s")
	args := append([]string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(r.port),
		"--save", "", "--appendonly", "no", "--dir", r.dir, "--unixsocket", socket,
	}, r.args...)
	p, err := startProcess(r.path, args...)
	if err != nil {
		return err
	}
	err = p.waitReady(func(ctx context.Context) error { return ping(ctx, socket) })
	if err != nil {
		p.kill()
		return fmt.Errorf("redis-server on port %d: %w", r.port, err)
	}
	r.process = p
	return nil
}

// ping asks the server behind the socket for a sign of life, and takes the
// demand for a password for one.
func ping(ctx context.Context, socket string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && reply != "+PONG\r\n" && !strings.HasPrefix(reply, "-NOAUTH ") {
		err = fmt.Errorf("it says %q", reply)
	}
	return err
}

func (r *redisProcess) remove() {
	r.process.stop()
	_ = os.RemoveAll(r.dir)
}
