//go:build unix

package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onceguard/onceguard/internal/realtest"
)

// asChild makes the test binary a child. The value is its config.
const asChild = "ONCEGUARD_TORTURE_CHILD"

// patience is how long anything may take on a machine that is busy with tests.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := runChild([]byte(text)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	realtest.Main(m)
}

// What a child tells on its standard output, one a line.
const (
	wordCalling = "calling" // the call begins
	wordRuns    = "runs"    // its action
	wordHalts   = "halts"   // at its point, until it gets a line
	wordGot     = "got"     // a report
)

// runChild makes one call.
func runChild(text []byte) error {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	goOn := make(chan struct{})
	go func() {
		in := bufio.NewReader(os.Stdin)
		if _, err := in.ReadString('\n'); err == nil {
			close(goOn)
			_, _ = in.ReadString('\n')
		}
		os.Exit(1) // the parent is gone
	}()
	var halted atomic.Bool
	p, err := newPayer(c, func(at point) {
		if at == inAction {
			fmt.Println(wordRuns)
		}
		if at == c.Halt && !halted.Swap(true) {
			fmt.Println(wordHalts)
			<-goOn
		}
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	fmt.Println(wordCalling)
	line, err := json.Marshal(reportOf(p.pay(ctx)))
	fmt.Printf("%s %s\n", wordGot, line)
	return err
}

// child is a process that makes a call. A channel of it is closed when the child has told so.
type child struct {
	*realtest.Child
	runs           atomic.Int64
	calling, halts chan struct{}
	got            chan report // one, if it lives to tell
}

// startChild starts a child.
func startChild(c config) (*child, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	ch := &child{calling: make(chan struct{}), halts: make(chan struct{}), got: make(chan report, 1)}
	ch.Child, err = realtest.StartChild(ch.hear, asChild+"="+string(text),
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // the race detector else takes a second to say goodbye
	return ch, err
}

func (c *child) hear(line string) {
	switch word, detail, _ := strings.Cut(line, " "); word {
	case wordCalling:
		close(c.calling)
	case wordRuns:
		c.runs.Add(1)
	case wordHalts:
		close(c.halts)
	case wordGot:
		var r report
		if json.Unmarshal([]byte(detail), &r) == nil {
			c.got <- r
		}
	}
}

// await waits until the child, or the network for it, is at a point. It returns false
// when the child has ended without.
func (c *child) await(reached <-chan struct{}) (bool, error) {
	select {
	case <-reached:
		return true, nil
	case <-c.Gone():
		return false, nil
	case <-time.After(patience):
		return false, errors.New("the child does not get on")
	}
}

func (c *child) stop() error { return c.Signal(syscall.SIGSTOP) }

// resume wakes a child that was stopped, and lets it go on from the point where it
// halts. That fails if it has ended, which its report tells.
func (c *child) resume() {
	c.Tell("")
	_ = c.Signal(syscall.SIGCONT)
}

// report waits for what the child got.
func (c *child) report() (report, error) {
	select {
	case <-c.Gone():
	case <-time.After(patience):
		c.Kill()
		return report{}, errors.New("the child does not end")
	}
	if !c.State().Success() {
		return report{}, fmt.Errorf("the child failed: %s\n%s", c.State(), c.Errors())
	}
	return <-c.got, nil
}
