package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// console prints what the processes of the demo say, each line with the time
// since the start and the name of its process.
type console struct {
	mu     sync.Mutex
	out    *os.File
	start  time.Time
	color  bool
	colors map[string]string // by process
	broken func(error)       // told when nobody reads any more
}

func newConsole(out *os.File, broken func(error)) *console {
	return &console{
		out: out, start: time.Now(), color: wantsColor(out),
		colors: map[string]string{"demo": "1"}, broken: broken,
	}
}

// wantsColor reports whether a person watches who has not asked for no colour.
func wantsColor(out *os.File) bool {
	info, err := out.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 &&
		os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// palette are the colours of the processes, in the order of their appearance.
var palette = []string{"36", "33", "35", "32", "34", "96", "93", "95", "92", "94"}

// line prints one line of a process.
func (c *console) line(process, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	prefix := fmt.Sprintf("%5.1fs  %-9s", time.Since(c.start).Seconds(), process)
	if c.color {
		color, ok := c.colors[process]
		if !ok {
			color = palette[len(c.colors)%len(palette)]
			c.colors[process] = color
		}
		prefix = "\x1b[" + color + "m" + prefix + "\x1b[0m"
	}
	c.print(prefix + "  " + text)
}

// say prints a line of the demo itself.
func (c *console) say(format string, args ...any) { c.line("demo", fmt.Sprintf(format, args...)) }

// title sets off a part of the demo.
func (c *console) title(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text = "── " + text + " "
	text += strings.Repeat("─", max(0, 100-len([]rune(text))))
	if c.color {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	c.print("\n" + text)
}

// block prints text as it is.
func (c *console) block(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.print(text)
}

func (c *console) print(text string) {
	if _, err := fmt.Fprintln(c.out, text); err != nil {
		c.broken(err)
	}
}
