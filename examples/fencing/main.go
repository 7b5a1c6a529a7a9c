// Fencing writes to a PostgreSQL ledger under a guard, and shows what the fence is for:
// an owner that has lost its lease writes nothing, and learns it. By hand, with two
// terminals:
//
//	createdb ledger
//	go run ./fencing -database postgres:///ledger -clerk anna -halt    then stop it with Ctrl-Z
//	go run ./fencing -database postgres:///ledger -clerk bob           takes over, and books the order
//	fg, and Enter                                                      anna is refused
//
// The SQL is in ledger.go.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

type options struct {
	database, redis string
	entry           Entry
	lease           time.Duration
	halt            bool
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("fencing", flag.ContinueOnError)
	f.StringVar(&o.database, "database", "postgres:///ledger", "the PostgreSQL database, as a URL or key=value pairs")
	f.StringVar(&o.redis, "redis", "localhost:6379", "address of the Redis server")
	f.StringVar(&o.entry.Order, "order", "order-1", "what is booked")
	f.Int64Var(&o.entry.Cents, "cents", 4999, "for how much")
	f.StringVar(&o.entry.Clerk, "clerk", "somebody", "who books it")
	f.DurationVar(&o.lease, "lease", 5*time.Second, "the lease")
	f.BoolVar(&o.halt, "halt", false, "wait for Enter before the write")
	return o, f.Parse(args)
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", o.database)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ledger := Ledger{db}
	if err := ledger.Create(ctx); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: o.redis, ContextTimeoutEnabled: true, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
	booking, err := newBooking(rdb, ledger, o.lease)
	if err != nil {
		return err
	}
	result, err := booking.DoResult(ctx, o.entry.Order, func(ctx context.Context) (Entry, error) {
		fence, ok := guard.FenceFromContext(ctx)
		if !ok {
			return Entry{}, errors.New("there is no reservation, and so no fence")
		}
		_, _ = fmt.Fprintf(out, "%s has %s, with fence %d\n", o.entry.Clerk, o.entry.Order, fence)
		if o.halt {
			_, _ = bufio.NewReader(in).ReadString('\n')
		}
		return o.entry, ledger.Write(ctx, o.entry, fence)
	}, guard.WithInput(order{o.entry.Order, o.entry.Cents}))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d cents, written by %s (%s)\n",
		result.Value.Order, result.Value.Cents, result.Value.Clerk, result.How)
	return err
}

// order is the input of a booking: what two calls for one order must have in common.
type order struct {
	ID    string
	Cents int64
}

func newBooking(rdb *redis.Client, ledger Ledger, lease time.Duration) (*guard.Operation[Entry], error) {
	store, err := redisx.New(rdb, redisx.Options{})
	if err != nil {
		return nil, err
	}
	g, err := guard.New(store, guard.WithLease(lease), guard.WithWaitBound(2*lease))
	if err != nil {
		return nil, err
	}
	return guard.NewOperation[Entry](g, "ledger.book",
		guard.ForPayments(), guard.OnFailure(meaning),
		guard.WithRecovery(func(ctx context.Context, lost guard.Evidence) (Entry, guard.Finding, error) {
			entry, found, err := ledger.Ask(ctx, lost.Key.Name, lost.Fence)
			switch {
			case err != nil:
				return Entry{}, guard.CannotTell, err
			case !found:
				return Entry{}, guard.NotFound, nil
			default:
				return entry, guard.Found, nil
			}
		}))
}

// meaning is the failure policy: what the database has refused has not happened, nor what was
// not sent to it. Of a connection that broke nobody knows, nor of a server that does not say in
// English how bad it is: PostgreSQL does so since 9.6, whatever its language.
func meaning(err error, _ bool) guard.Disposition {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if ok && refused.SeverityUnlocalized == "ERROR" || errors.Is(err, ErrFenceTooOld) || pgconn.SafeToRetry(err) {
		return guard.Release
	}
	return guard.Undecided
}
