// Payments charges cards in Temporal activities, with the guard and without, and
// shows what a killed worker and concurrent duplicates do to the charges.
//
// It is one program with three roles. The demo, which is the default, starts the
// other two as processes of their own, beside a real Temporal server and Redis:
//
//	payments [demo] [flags]   play the scenarios and judge them
//	payments provider         the payment provider: an HTTP server with a ledger
//	payments worker           a Temporal worker that charges cards
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	role := "demo"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		role, args = args[0], args[1:]
	}
	roles := map[string]func(context.Context, []string) error{
		"demo": runDemo, "provider": runProvider, "worker": runWorker,
	}
	play, ok := roles[role]
	if !ok {
		fmt.Fprintf(os.Stderr, "payments: no role %q: it is demo, provider or worker\n", role)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := play(ctx, args)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	default:
		fmt.Fprintf(os.Stderr, "payments %s: %v\n", role, err)
		return 1
	}
}

// untilStdinEnds returns a context that is done when the other end of the
// standard input is closed. That is how the demo asks its children to end, and
// how they learn that it has died, on every system.
func untilStdinEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}

// tell prints a line that the demo acts on, see child.await.
func tell(word, detail string) { fmt.Printf("%s%s %s\n", signalMark, word, detail) }
