package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/examples/internal/stage"
)

// startRedis returns the address of a Redis: that of the flag, or one of its own that ends by stop.
func startRedis(ctx context.Context, given string) (addr string, stop func(), err error) {
	if given != "" {
		sayHowToLook(given)
		return given, func() {}, nil
	}
	path := os.Getenv("ONCEGUARD_REDIS_SERVER")
	if path == "" {
		path = "redis-server"
	}
	if path, err = exec.LookPath(path); err == nil {
		return startServer(ctx, path)
	}
	if os.Getenv("ONCEGUARD_REDIS_SERVER") != "" {
		return "", nil, err
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return "", nil, err
	}
	ended := make(chan struct{})
	go age(ended, embedded)
	say("no redis-server is on the PATH: an imitation of Redis is on %s", embedded.Addr())
	return embedded.Addr(), func() { close(ended); embedded.Close() }, nil
}

// age lets the time of the imitation pass, whose keys do not expire by themselves.
func age(ended <-chan struct{}, embedded *miniredis.Miniredis) {
	const step = 100 * time.Millisecond
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			embedded.FastForward(step)
		case <-ended:
			return
		}
	}
}

func startServer(ctx context.Context, path string) (addr string, stop func(), err error) {
	port, err := stage.FreePort()
	if err != nil {
		return "", nil, err
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	cmd := exec.Command(path, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), //nolint:gosec,noctx // stop ends it
		"--save", "", "--appendonly", "no", "--dir", os.TempDir())
	cmd.SysProcAttr = ownGroup()
	gone, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel ends the server with this thread
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(gone)
		}
	}()
	if err := <-started; err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); <-gone } // it keeps nothing
	if err := untilAnswering(ctx, addr, gone); err != nil {
		stop()
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	say("a Redis server is on %s", addr)
	sayHowToLook(addr)
	return addr, stop, nil
}

// sayHowToLook says how to see the records of the guard.
func sayHowToLook(addr string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return // the client says what is wrong with it
	}
	at := "-p " + port
	if host != "" && host != "127.0.0.1" {
		at = "-h " + host + " " + at
	}
	say("its records: redis-cli %s --scan --pattern '%s:*'", at, prefix)
}

func untilAnswering(ctx context.Context, addr string, gone <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	for {
		err := rdb.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			return errors.New("it has ended")
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
