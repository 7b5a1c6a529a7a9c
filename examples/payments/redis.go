package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/examples/internal/stage"
)

// What -redis may be.
const (
	redisAuto     = "auto"     // a redis-server if there is one, else embedded
	redisServer   = "server"   // a redis-server, or fail
	redisEmbedded = "embedded" // miniredis, in the demo's own process
)

// redisVariable may hold the path of a redis-server.
const redisVariable = "ONCEGUARD_REDIS_SERVER"

// startRedis starts a Redis that keeps nothing, and says which.
func (d *demo) startRedis(ctx context.Context) error {
	if d.options.redis != redisEmbedded {
		path, err := findRedis()
		if err == nil {
			return d.startRedisServer(ctx, path)
		}
		if d.options.redis == redisServer || os.Getenv(redisVariable) != "" {
			return err
		}
		d.console.say("Redis: %v", err)
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return err
	}
	d.redisAddr = embedded.Addr()
	d.closers = append(d.closers, embedded.Close)
	d.console.say("Redis: an embedded imitation (miniredis) on %s. This shows how the guard works", d.redisAddr)
	d.console.say("       and proves nothing about Redis; with redis-server on the PATH it would.")
	return nil
}

func findRedis() (string, error) {
	if path := os.Getenv(redisVariable); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", redisVariable, err)
		}
		return found, nil
	}
	return exec.LookPath("redis-server")
}

func (d *demo) startRedisServer(ctx context.Context, path string) error {
	port, err := stage.FreePort()
	if err != nil {
		return err
	}
	d.redisAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	server, err := d.family.start(program{
		name: "redis", path: path, quiet: true, args: []string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--dir", os.TempDir(),
		},
	})
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: d.redisAddr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	err = d.untilReady(ctx, server, func(ctx context.Context) error { return rdb.Ping(ctx).Err() })
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	d.console.say("Redis: a server on %s (%s)", d.redisAddr, path)
	return nil
}
