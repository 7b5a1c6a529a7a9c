//go:build unix

package storm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

// asChild makes the test binary a worker. The value is its config.
const asChild = "ONCEGUARD_STORM_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := runChild([]byte(text)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	realtest.Main(m)
}

// What a child tells on its standard output, one a line. All but the first is counted.
const (
	wordReady         = "ready"
	wordCall          = "calls:" // and the outcome
	wordHook          = "hook:"  // and what it found
	wordTakeover      = "takeovers"
	wordCollision     = "collisions"
	wordReplayedLater = "replays in a later attempt of an activity"
)

// What the parent counts.
const (
	wordKill     = "kills"
	wordCutShort = "charges under way when their worker was killed"
	wordRefused  = "charges refused by the fence"
)

func tell(line string) { _, _ = io.WriteString(os.Stdout, line+"\n") }

func runChild(text []byte) error {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent is gone
	}()
	return c.serve(context.Background())
}

// child is a worker in a process of its own.
type child struct {
	*realtest.Child
	name  string
	ready chan struct{} // closed when it takes work
}

// startChild starts a worker, and counts what it tells.
func startChild(c config, sum *realtest.Tally) (*child, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	ch := &child{name: c.Name, ready: make(chan struct{})}
	ready := sync.OnceFunc(func() { close(ch.ready) })
	ch.Child, err = realtest.StartChild(func(line string) {
		if line == wordReady {
			ready()
		} else {
			sum.Add(line, 1)
		}
	}, asChild+"="+string(text), "GORACE=halt_on_error=1 "+os.Getenv("GORACE"))
	return ch, err
}

// endedError is for a child that nobody has killed.
func (c *child) endedError() error {
	<-c.Gone()
	return fmt.Errorf("%s has ended by itself: %s\n%s", c.name, c.State(), c.Errors())
}
