package redisx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

// wantClass runs a reserve, which writes, and looks at the class of its error.
func wantClass(t *testing.T, rdb *redis.Client, want guard.ErrorClass) error {
	t.Helper()
	store := newStore(t, rdb)
	_, err := store.Reserve(t.Context(), guard.ReserveRequest{
		Key: testKey(t), Owner: guard.Owner{Token: "a"}, Lease: testLease, Retention: testRetention,
	})
	if got := guard.Classify(err); err == nil || got != want {
		t.Errorf("%v: class %s, want %s", err, got, want)
	}
	if err != nil && !strings.HasPrefix(err.Error(), "onceguard: redis: reserve: ") {
		t.Errorf("the message does not say where: %v", err)
	}
	return err
}

func connect(t *testing.T, options redis.Options) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestErrors_AServerOutOfMemoryStillReplaysResults(t *testing.T) {
	rdb := realtest.Redis(t).Client(t)
	store, key := newStore(t, rdb), testKey(t)
	mustReplace(t, store, key, acquire(t, store, key, guard.Owner{Token: "a"}, testLease), `{}`)
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	err := wantClass(t, rdb, guard.ClassOutOfMemory)
	if _, ok := errors.AsType[redis.Error](err); !ok {
		t.Errorf("%v does not unwrap to the server's error", err)
	}
	reply, err := store.Reserve(t.Context(), guard.ReserveRequest{
		Key: key, Owner: guard.Owner{Token: "b"}, Lease: testLease, Retention: testRetention,
	})
	if err != nil || string(reply.Record.Result) != `{}` {
		t.Errorf("a hit on a full server: %+v, %v", reply, err)
	}
}

func TestErrors_AReplicaIsReadOnly(t *testing.T) {
	primary := realtest.Redis(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	wantClass(t, realtest.Redis(t, "--replicaof", host, port).Client(t), guard.ClassReadOnly)
}

func TestErrors_APrimaryWithoutItsReplicasIsReadOnly(t *testing.T) {
	wantClass(t, realtest.Redis(t, "--min-replicas-to-write", "1").Client(t), guard.ClassReadOnly)
}

func TestErrors_AClusterWithoutSlotsIsDown(t *testing.T) {
	wantClass(t, clusterServer(t).Client(t), guard.ClassCluster)
}

func TestErrors_APasswordIsNeeded(t *testing.T) {
	addr := realtest.Redis(t, "--requirepass", "secret").Addr()
	wantClass(t, connect(t, redis.Options{Addr: addr}), guard.ClassAuth)
	wantClass(t, connect(t, redis.Options{Addr: addr, Password: "wrong"}), guard.ClassAuth)
}

func TestErrors_AUserMayNot(t *testing.T) {
	srv := realtest.Redis(t)
	for name, rules := range map[string][]string{
		"run scripts":     {"~*", "+@all", "-eval", "-evalsha"},
		"touch our keys":  {"~other:*", "+@all"},
		"get in a script": {"~*", "+eval", "+evalsha", "+time"},
		"set in a script": {"~*", "+eval", "+evalsha", "+time", "+get"},
	} {
		t.Run(name, func(t *testing.T) {
			user := strings.ReplaceAll(name, " ", "-")
			rule := append([]string{"on", ">secret"}, rules...)
			if err := srv.Client(t).ACLSetUser(t.Context(), user, rule...).Err(); err != nil {
				t.Fatal(err)
			}
			wantClass(t, connect(t, redis.Options{Addr: srv.Addr(), Username: user, Password: "secret"}), guard.ClassAuth)
		})
	}
}

func TestErrors_AServerThatIsGone(t *testing.T) {
	srv := realtest.Redis(t)
	rdb := connect(t, redis.Options{Addr: srv.Addr(), MaxRetries: -1, DialerRetries: 1})
	mustLoad(t, newStore(t, rdb), testKey(t))
	srv.Kill()
	wantClass(t, rdb, guard.ClassConnection)
	wantClass(t, rdb, guard.ClassConnection) // dials anew

	if err := rdb.Close(); err != nil {
		t.Fatal(err)
	}
	if err := wantClass(t, rdb, guard.ClassConnection); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("%v, want %v", err, redis.ErrClosed)
	}
}

func TestErrors_AConnectionThatIsCut(t *testing.T) {
	proxy := realtest.LossyProxy(t, realtest.SharedRedis(t).Addr())
	rdb := connect(t, redis.Options{Addr: proxy.Addr(), MaxRetries: -1})
	loadScripts(t, newStore(t, rdb))
	proxy.DropReply("evalsha")
	wantClass(t, rdb, guard.ClassConnection)
}

func TestErrors_AReadTimeoutOfTheClient(t *testing.T) {
	rdb := connect(t, redis.Options{Addr: realtest.Blackhole(t), ReadTimeout: 20 * time.Millisecond, MaxRetries: -1})
	if err := wantClass(t, rdb, guard.ClassTimeout); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, though the context had time left", err)
	}
}

func TestErrors_ReplyThatDoesNotParse(t *testing.T) {
	owned := format(guard.Record{
		Version: recordVersion, Status: guard.StatusPending,
		Until: time.UnixMicro(1), Created: time.UnixMicro(1), Updated: time.UnixMicro(1),
	})
	rdb := connect(t, redis.Options{Addr: "127.0.0.1:1"})
	fake := &hook{}
	rdb.AddHook(fake)
	store, key := newStore(t, rdb), testKey(t)
	for _, value := range []any{
		"OK", int64(1),
		[]any{},
		[]any{"x"},
		[]any{"ok"},
		[]any{"ok", "soon"},
		[]any{int64(2)},
		[]any{int64(1), "x"},
		[]any{int64(1), int64(0)},
		[]any{int64(1), int64(0), int64(0)},
		[]any{nil, int64(0), owned},
	} {
		fake.answer = func(cmd *redis.Cmd) { cmd.SetVal(value) }
		for _, call := range phaseCalls(store, key) {
			list, _ := value.([]any)
			short := call.phase == guard.PhaseRelease || call.phase == guard.PhaseErase
			if short && len(list) > 0 && list[0] != nil && list[0] != "x" && list[0] != "ok" {
				continue // an integer is all that they want
			}
			if err := call.do(t.Context()); !errors.Is(err, errReply) || guard.Classify(err) != guard.ClassEncoding {
				t.Errorf("%s of %v: %v", call.phase, value, err)
			}
		}
	}
	fake.answer = func(cmd *redis.Cmd) { cmd.SetVal([]any{int64(1), int64(0), owned}) }
	if _, err := store.Resolve(t.Context(), guard.ResolveRequest{Key: key, As: guard.StatusFailed}); !errors.Is(err, errReply) {
		t.Errorf("resolved without a word: %v", err)
	}
	fake.answer = func(cmd *redis.Cmd) { cmd.SetVal([]any{int64(1), int64(0), "not a record"}) }
	if err := phaseCalls(store, key)[0].do(t.Context()); guard.Classify(err) != guard.ClassEncoding {
		t.Errorf("acquired what cannot be read: %v", err)
	}
}

func TestErrors_ARecordOutOfRangeIsRefused(t *testing.T) {
	store := newStore(t, connect(t, redis.Options{Addr: "127.0.0.1:1"}))
	for _, rec := range []guard.Record{
		{Fence: -1},
		{Fence: maxExact + 1},
		{Attempt: -1},
		{TookOver: &guard.Previous{Fence: -1}},
		{Dispatch: &guard.Dispatch{Fence: maxExact + 1}},
	} {
		_, renewErr := store.Renew(t.Context(), guard.RenewRequest{Record: rec})
		_, replaceErr := store.Replace(t.Context(), guard.ReplaceRequest{Record: rec})
		_, releaseErr := store.Release(t.Context(), guard.ReleaseRequest{Record: rec})
		_, holdErr := store.Hold(t.Context(), guard.HoldRequest{Record: rec})
		for _, err := range []error{renewErr, replaceErr, releaseErr, holdErr} {
			if err == nil || !strings.Contains(err.Error(), "not between 0 and") {
				t.Errorf("%+v: %v", rec, err)
			}
		}
	}
}

func TestClassify_KnowsWhatServersSay(t *testing.T) {
	for message, want := range map[string]guard.ErrorClass{
		"READONLY You can't write against a read only replica.":                                         guard.ClassReadOnly,
		"ERR Error running script (call to f_0a): @user_script:7: -READONLY You can't write against it": guard.ClassReadOnly,
		"MISCONF Redis is configured to save RDB snapshots":                                             guard.ClassReadOnly,
		"ERR Error running script (call to f_0a): @user_script:7: -OOM command not allowed":             guard.ClassOutOfMemory,
		"OOM command not allowed when used memory > 'maxmemory'. script: 0a, on @user_script:7.":        guard.ClassOutOfMemory,
		"MOVED 3999 127.0.0.1:6381":                                              guard.ClassCluster,
		"ASK 3999 127.0.0.1:6381":                                                guard.ClassCluster,
		"TRYAGAIN Multiple keys request during rehashing of slot":                guard.ClassCluster,
		"CROSSSLOT Keys in request don't hash to the same slot":                  guard.ClassCluster,
		"NOAUTH Authentication required.":                                        guard.ClassAuth,
		"LOADING Redis is loading the dataset in memory":                         guard.ClassConnection,
		"MASTERDOWN Link with MASTER is down":                                    guard.ClassConnection,
		"ERR max number of clients reached":                                      guard.ClassConnection,
		"ERR unknown command 'evalsha', with args beginning with: 'ZOOM' 'TASK'": guard.ClassOther,
		"BUSY Redis is busy running a script":                                    guard.ClassOther,
	} {
		if got := classifyServer(message); got != want {
			t.Errorf("%q: %s, want %s", message, got, want)
		}
	}
}

func TestClassify_KnowsHowConnectionsFail(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errors.New("connection refused"))}
	for err, want := range map[error]guard.ErrorClass{
		io.EOF: guard.ClassConnection, io.ErrUnexpectedEOF: guard.ClassConnection, net.ErrClosed: guard.ClassConnection,
		redis.ErrClosed: guard.ClassConnection, redis.ErrPoolExhausted: guard.ClassConnection, refused: guard.ClassConnection,
		redis.ErrPoolTimeout: guard.ClassTimeout, os.ErrDeadlineExceeded: guard.ClassTimeout,
		context.DeadlineExceeded: guard.ClassTimeout,
		context.Canceled:         guard.ClassOther, errors.New("surprise"): guard.ClassOther,
	} {
		if got := classify(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestWithContext_LeavesTheServersWordAlone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := withContext(ctx, redis.ErrNoScript); errors.Is(err, context.Canceled) {
		t.Errorf("%v: the server answered, whatever became of the context", err)
	}
	if err := withContext(ctx, io.EOF); !errors.Is(err, context.Canceled) || !errors.Is(err, io.EOF) {
		t.Errorf("%v, want both causes", err)
	}
}

// lateContext is a context in the moment between its deadline and its end.
type lateContext struct{ context.Context } //nolint:containedctx // it is a context itself

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Microsecond), true }

func TestWithContext_ADeadlineThatPassedIsExceeded(t *testing.T) {
	err := withContext(lateContext{t.Context()}, os.ErrDeadlineExceeded)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want both causes", err)
	}
}
