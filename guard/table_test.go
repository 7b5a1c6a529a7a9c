package guard_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// row is a line of the table below. Words in one cell are alternatives: the row
// holds for every combination of them.
type row struct {
	broken   string // the store call that is broken
	by       string // how: see faultsByName
	storage  string // OnStorageError
	inFlight string // OnInFlight
	ending   string // how the action or its caller ends: see endings
	runs     int
	outcome  guard.Outcome
	gets     string       // what the caller gets: value, own error, storage, canceled, nothing (the stack unwinds)
	record   guard.Status // what is stored at the end, "" for nothing
}

const (
	allFaults = "fails hangs loses delays"
	noReply   = "fails hangs loses"
	notThere  = "fails hangs"
	both      = "open closed"
	reserving = "wait refuse"
	anyMode   = "wait refuse run"
	unwinding = "panic goexit"
)

// table says what a call does, by what is broken, how, and how it ends. The
// store works again after the broken call, and nobody else has the key.
var table = []row{
	// broken, by, storage, in flight, ending                        runs  outcome
	// gets         record

	// Nothing is broken.
	{"nothing", "works", both, reserving, "return", 1, guard.OutcomeExecuted, "value", guard.StatusCompleted},
	{"nothing", "works", both, reserving, "error", 1, guard.OutcomeFailed, "own error", guard.StatusReleased},
	{"nothing", "works", both, reserving, unwinding, 1, guard.OutcomeFailed, "nothing", guard.StatusReleased},
	{"nothing", "works", both, anyMode, "left-early", 0, guard.OutcomeCanceled, "canceled", ""},
	{"nothing", "works", both, reserving, "cancel-during", 1, guard.OutcomeInterrupted, "canceled", guard.StatusReleased},
	{"nothing", "works", both, reserving, "cancel-after", 1, guard.OutcomeExecuted, "value", guard.StatusCompleted},
	{"nothing", "works", both, "run", "return cancel-after", 1, guard.OutcomeUnguarded, "value", guard.StatusCompleted},
	{"nothing", "works", both, "run", "error", 1, guard.OutcomeFailed, "own error", ""},
	{"nothing", "works", both, "run", unwinding, 1, guard.OutcomeFailed, "nothing", ""},

	// The reserve: FailOpen runs unguarded, FailClosed does not run. A key that may
	// have been acquired all the same is given back when there is no result.
	{"reserve", noReply, "open", reserving, "return cancel-after", 1, guard.OutcomeUnguarded, "value", guard.StatusCompleted},
	{"reserve", noReply, "open", reserving, "error", 1, guard.OutcomeFailed, "own error", guard.StatusReleased},
	{"reserve", noReply, "open", reserving, unwinding, 1, guard.OutcomeFailed, "nothing", guard.StatusReleased},
	{"reserve", noReply, "closed", reserving, "return error panic goexit", 0, guard.OutcomeRejected, "storage", guard.StatusReleased},
	{"reserve", "hangs delays", both, reserving, "cancel-before", 0, guard.OutcomeCanceled, "canceled", guard.StatusReleased},
	{"reserve", "delays", both, reserving, "return", 1, guard.OutcomeExecuted, "value", guard.StatusCompleted},

	// The look of the Run mode.
	{"load", noReply, "open", "run", "return", 1, guard.OutcomeUnguarded, "value", guard.StatusCompleted},
	{"load", noReply, "closed", "run", "return", 0, guard.OutcomeRejected, "storage", ""},
	{"load", "hangs delays", both, "run", "cancel-before", 0, guard.OutcomeCanceled, "canceled", ""},

	// A renewal: absorbed, whatever it is.
	{"renew", allFaults, both, reserving, "return cancel-after", 1, guard.OutcomeExecuted, "value", guard.StatusCompleted},
	{"renew", allFaults, both, reserving, "error", 1, guard.OutcomeFailed, "own error", guard.StatusReleased},
	{"renew", allFaults, both, reserving, unwinding, 1, guard.OutcomeFailed, "nothing", guard.StatusReleased},

	// The replace: the effect has happened, so the caller gets its result in every
	// mode, and it is tried again behind the caller for the rest of the lease.
	{"replace", allFaults, both, reserving, "return cancel-after", 1, guard.OutcomeExecuted, "value", guard.StatusCompleted},
	{"replace", notThere, both, "run", "return", 1, guard.OutcomeUnguarded, "value", ""},

	// The release: the caller gets its own error in every mode.
	{"release", notThere, both, reserving, "error", 1, guard.OutcomeFailed, "own error", guard.StatusPending},
	{"release", notThere, both, reserving, unwinding, 1, guard.OutcomeFailed, "nothing", guard.StatusPending},
	{"release", "loses delays", both, reserving, "error", 1, guard.OutcomeFailed, "own error", guard.StatusReleased},
	{"release", "loses delays", both, reserving, unwinding, 1, guard.OutcomeFailed, "nothing", guard.StatusReleased},
}

// actionTime is long enough for one renewal.
const actionTime = 12 * time.Second

func TestTable_EveryCellOfTheStorageFailures(t *testing.T) {
	cells := 0
	for _, r := range table {
		for by := range strings.FieldsSeq(r.by) {
			for storage := range strings.FieldsSeq(r.storage) {
				for inFlight := range strings.FieldsSeq(r.inFlight) {
					for ending := range strings.FieldsSeq(r.ending) {
						cell := r
						cell.by, cell.storage, cell.inFlight, cell.ending = by, storage, inFlight, ending
						cells++
						name := strings.Join([]string{cell.broken, by, storage, inFlight, ending}, "/")
						t.Run(name, func(t *testing.T) { synctest.Test(t, cell.check) })
					}
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

func (r row) check(t *testing.T) {
	store := newFaultyStore()
	op, rec := newOp[int](t, store, guard.OnStorageError(guard.StorageErrorMode("fail_"+r.storage)),
		guard.OnInFlight(guard.InFlightMode(r.inFlight)))
	if f := faultsByName()[r.by]; f != nil {
		store.set(once(f), guard.Phase(r.broken))
	}
	got := r.do(t, op)
	synctest.Wait()
	time.Sleep(2 * time.Second) // what goes on in the background ends within two store timeouts

	if got.runs != r.runs {
		t.Errorf("%d runs, want %d", got.runs, r.runs)
	}
	if said := got.said(); said != r.gets {
		t.Errorf("the caller got %q (%d, %v), want %q", said, got.value, got.err, r.gets)
	}
	rec.wantOutcomes(t, r.outcome)
	if found := load(t, store.Store, "order-1"); found.Record.Status != r.record {
		t.Errorf("the record is %q, want %q", found.Record.Status, r.record)
	}
	if acquired, ended := rec.count(guard.EventAcquired), rec.count(guard.EventEnded); acquired != ended {
		t.Errorf("%d leases acquired, %d ended", acquired, ended)
	}
}

func faultsByName() map[string]fault {
	return map[string]fault{
		"works": nil, "fails": fails, "hangs": hangs, "loses": losesReply,
		"delays": func(ctx context.Context, call func(context.Context) error) error {
			time.Sleep(200 * time.Millisecond)
			return call(context.WithoutCancel(ctx))
		},
	}
}

// once is a fault of the first call only.
func once(f fault) fault {
	first := true
	return func(ctx context.Context, call func(context.Context) error) error {
		if first {
			first = false
			return f(ctx, call)
		}
		return call(ctx)
	}
}

var errOwn = errors.New("declined")

// seen is what came back from a call.
type seen struct {
	runs     int
	returned bool
	value    int
	err      error
}

func (s seen) said() string {
	switch {
	case !s.returned:
		return "nothing"
	case s.err == nil && s.value == 7:
		return "value"
	case s.err == errOwn: //nolint:errorlint // identity is the promise
		return "own error"
	case errors.Is(s.err, guard.ErrStorage):
		return "storage"
	case errors.Is(s.err, context.Canceled):
		return "canceled"
	default:
		return "something else"
	}
}

// do makes the call in a goroutine of its own, which the action may end.
func (r row) do(t *testing.T, op *guard.Operation[int]) seen {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	switch r.ending {
	case "left-early":
		cancel()
	case "cancel-before": // while the store is asked
		time.AfterFunc(100*time.Millisecond, cancel)
	}
	var got seen
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		got.value, got.err = op.Do(ctx, "order-1", func(ctx context.Context) (int, error) {
			got.runs++
			time.Sleep(actionTime)
			return r.end(ctx, cancel)
		})
		got.returned = true
	}()
	<-done
	return got
}

// end ends the action.
func (r row) end(ctx context.Context, cancel context.CancelFunc) (int, error) {
	switch r.ending {
	case "error":
		return 0, errOwn
	case "panic":
		panic(errOwn)
	case "goexit":
		runtime.Goexit()
	case "cancel-during":
		cancel()
		return 0, ctx.Err()
	case "cancel-after":
		cancel()
	}
	return 7, nil
}
