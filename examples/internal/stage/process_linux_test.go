package stage_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/onceguard/onceguard/internal/realtest"
)

// TestMainOfTwo_LeavesNothingBehindWhenItIsKilled kills an example that has started a dev server and a
// worker, while something else still reads what they print: they do not end by a broken pipe.
func TestMainOfTwo_LeavesNothingBehindWhenItIsKilled(t *testing.T) {
	t.Parallel()
	realtest.SharedTemporal(t) // skips where there is none
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "ONCEGUARD_AS_PROGRAM=1")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = write.Close(), read.Close() }()
	cmd.Stdout = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var server, worker string
	for lines := bufio.NewScanner(read); (server == "" || worker == "") && lines.Scan(); {
		switch word, rest, _ := strings.Cut(lines.Text(), " "); word {
		case "server":
			server = rest
		case "worker":
			worker, rest, _ = strings.Cut(rest, " ")
			if rest != "hello" {
				t.Errorf("the worker was told %q", rest)
			}
		}
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "nobody answers at "+server, func() bool {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", server)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	eventually(t, "the worker "+worker+" is gone", func() bool {
		stat, err := os.ReadFile("/proc/" + worker + "/stat")
		_, state, _ := strings.Cut(string(stat), ") ") // after the name, in brackets
		return errors.Is(err, os.ErrNotExist) || strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for ticker := time.NewTicker(20 * time.Millisecond); !is(); {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatal("never came true: " + what)
		}
	}
}
