package redisx

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

// listAll is every page. The function is called after each.
func listAll(t *testing.T, s *Store, req guard.ListRequest, after func(page int)) []guard.Listed {
	t.Helper()
	var all []guard.Listed
	for page := 1; ; page++ {
		reply, err := s.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, reply.Records...)
		if after != nil {
			after(page)
		}
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return all
		}
		if page > 100_000 {
			t.Fatal("the list does not end")
		}
	}
}

// wantKeys wants just these keys, however often.
func wantKeys(t *testing.T, got []guard.Listed, want map[guard.Key]bool) {
	t.Helper()
	found := map[guard.Key]bool{}
	for _, listed := range got {
		if !want[listed.Key] {
			t.Errorf("%+v is listed", listed.Key)
		}
		found[listed.Key] = true
	}
	for key := range want {
		if !found[key] {
			t.Errorf("%+v is missing", key)
		}
	}
}

func TestList_ShowsWhatStaysWhileOthersComeAndGo(t *testing.T) {
	t.Parallel()
	srv := realtest.Redis(t)
	for _, mode := range clientModes() {
		t.Run(mode.name, func(t *testing.T) {
			store := newStore(t, mode.client(t, srv.Addr()))
			stays := guard.Key{Operation: t.Name()}
			want := map[guard.Key]bool{}
			for i := range 3000 {
				stays.Name = "stays " + strconv.Itoa(i)
				acquire(t, store, stays, guard.Owner{Token: "a"}, testLease)
				want[stays] = true
			}
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for writer := range 4 {
				wg.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						key := guard.Key{Operation: stays.Operation, Name: fmt.Sprint("comes and goes ", writer, " ", i)}
						rec := acquire(t, store, key, guard.Owner{Token: "b"}, testLease)
						if i%2 == 0 {
							mustReplace(t, store, key, rec, `{}`)
						}
					}
				})
			}
			got := listAll(t, store, guard.ListRequest{Operation: stays.Operation, Limit: 100}, nil)
			stop()
			wg.Wait()
			found := map[guard.Key]bool{}
			for _, listed := range got {
				if listed.Record.Status != guard.StatusPending || listed.Left <= 0 {
					t.Errorf("%+v", listed)
				}
				found[listed.Key] = true
			}
			for key := range want {
				if !found[key] {
					t.Errorf("%q was there all the time and is missing", key.Name)
				}
			}
		})
	}
}

func TestList_TakesPrefixAndOperationLiterally(t *testing.T) {
	t.Parallel()
	rdb := realtest.Redis(t).Client(t)
	const prefix = `p*?[a-z]\^-{t}`
	lookalikes := []string{`pxxa\^-{t}`, `pxxa^-{t}`, `p*?b\^-{t}`, `p*?[a-z]^-{t}`, `p`, prefix + "x", prefix + ":payment"}
	for _, other := range lookalikes {
		store, err := New(rdb, Options{Prefix: other})
		if err != nil {
			t.Fatal(err)
		}
		acquire(t, store, guard.Key{Operation: "a", Name: "lookalike"}, guard.Owner{Token: "a"}, testLease)
	}
	store, err := New(rdb, Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	all := map[guard.Key]bool{}
	operations := []string{"*", "?", "[ab]", "[^b]", "a", "ab", `\a`, `a\`, "a-b", "{a}", "a:b", "%3A", "a*", "💳"}
	for _, operation := range operations {
		key := guard.Key{Operation: operation, Name: "name of " + operation}
		acquire(t, store, key, guard.Owner{Token: "a"}, testLease)
		all[key] = true
	}
	for _, operation := range operations {
		got := listAll(t, store, guard.ListRequest{Operation: operation, Limit: 100}, nil)
		wantKeys(t, got, map[guard.Key]bool{{Operation: operation, Name: "name of " + operation}: true})
	}
	wantKeys(t, listAll(t, store, guard.ListRequest{Limit: 100}, nil), all)
}

func TestList_AServerThatForgetsTheScripts(t *testing.T) {
	t.Parallel()
	rdb := realtest.Redis(t).Client(t)
	store := newStore(t, rdb)
	want := map[guard.Key]bool{}
	for i := range 500 {
		key := guard.Key{Operation: "payment.charge", Name: strconv.Itoa(i)}
		acquire(t, store, key, guard.Owner{Token: "a"}, testLease)
		want[key] = true
	}
	flush := func() {
		if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	}
	wantKeys(t, listAll(t, store, guard.ListRequest{Limit: 50}, func(int) { flush() }), want)

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			flush()
		}
	})
	got := listAll(t, store, guard.ListRequest{Limit: 50}, nil)
	stop()
	wg.Wait()
	wantKeys(t, got, want)
}

func TestList_ShowsWhatCannotBeReadAndSkipsWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	rdb := realtest.Redis(t).Client(t)
	store, ctx := newStore(t, rdb), t.Context()
	newer := "onceguard/2 completed\nowner=x\n\n" + strings.Repeat("x", 1<<20)
	for _, err := range []error{
		rdb.Set(ctx, "onceguard:op:newer", newer, time.Hour).Err(),
		rdb.Set(ctx, "onceguard:op:empty", "", time.Hour).Err(),
		rdb.HSet(ctx, "onceguard:op:hash", "field", "value").Err(),
		rdb.Set(ctx, "onceguard:op", "somebody's", 0).Err(),
		rdb.Set(ctx, "onceguard:op:a:b", "somebody's", 0).Err(),
		rdb.Set(ctx, "onceguard:op:{a}", "somebody's", 0).Err(),
		rdb.Set(ctx, "other:op:a", "somebody's", 0).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := listAll(t, store, guard.ListRequest{Limit: 100}, nil)
	wantKeys(t, got, map[guard.Key]bool{
		{Operation: "op", Name: "newer"}: true, {Operation: "op", Name: "empty"}: true, {Operation: "op", Name: "hash"}: true,
	})
	for _, listed := range got {
		loaded := mustLoad(t, store, listed.Key)
		if listed.Record.Status != guard.StatusUnknown || listed.Record.Version != loaded.Record.Version {
			t.Errorf("%+v, loaded: %+v", listed, loaded)
		}
		if expires := listed.Key.Name != "hash"; expires != (listed.Left > 59*time.Minute) {
			t.Errorf("%q is there for %s", listed.Key.Name, listed.Left)
		}
	}
}

var sentPattern = regexp.MustCompile(`total_net_output_bytes:(\d+)`)

func TestList_ResultsStayOnTheServer(t *testing.T) {
	t.Parallel()
	rdb := realtest.Redis(t).Client(t)
	store := newStore(t, rdb)
	for i := range 10 {
		key := guard.Key{Operation: "payment.charge", Name: strconv.Itoa(i)}
		rec := acquire(t, store, key, guard.Owner{Token: "a"}, testLease)
		mustReplace(t, store, key, rec, strings.Repeat("x", 1<<20))
	}
	sent := func() int {
		info, err := rdb.Info(t.Context(), "stats").Result()
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(sentPattern.FindStringSubmatch(info)[1])
		return n
	}
	before := sent()
	wantKeys(t, listAll(t, store, guard.ListRequest{Limit: 100}, nil), nil)
	if n := sent() - before; n > 1<<16 {
		t.Errorf("the server sent %d bytes to say that there is nothing", n)
	}
}

func TestList_RefusesACursorThatItNeverGave(t *testing.T) {
	t.Parallel()
	store := newStore(t, realtest.SharedRedis(t).Client(t))
	for _, cursor := range []string{"x", "-1", "+1", "01", " 1", "1.5", "0x1", "1@", "1@127.0.0.1:1", "@", "18446744073709551616", "\x00"} {
		_, err := store.List(t.Context(), guard.ListRequest{Cursor: cursor, Limit: 1})
		if err == nil || !strings.Contains(err.Error(), "begin with an empty one") || !strings.HasPrefix(err.Error(), "onceguard: redis: list: ") {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}

func TestList_LooksAtNoMoreThanAThousandKeysAtOnce(t *testing.T) {
	t.Parallel()
	rdb := realtest.Redis(t).Client(t)
	seen := &scans{}
	rdb.AddHook(seen)
	store := newStore(t, rdb)
	for _, limit := range []int{-1, 0, 1, 7, 1 << 40} {
		if _, err := store.List(t.Context(), guard.ListRequest{Limit: limit}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := fmt.Sprint(seen.counts), "[1 1 1 7 1000]"; got != want {
		t.Errorf("counts %s, want %s", got, want)
	}
}

// scans sees how much each SCAN asks for.
type scans struct {
	hook
	counts []any
}

func (s *scans) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "scan" {
			s.counts = append(s.counts, args[len(args)-1])
		}
		return next(ctx, cmd)
	}
}

func TestList_NeverOutlastsItsDeadline(t *testing.T) {
	t.Parallel()
	srv := realtest.Redis(t)
	addr := realtest.Blackhole(t)
	clients := map[string]redis.UniversalClient{
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}}),
	}
	for _, rdb := range clients {
		t.Cleanup(func() { _ = rdb.Close() })
	}
	for _, mode := range clientModes() {
		clients[mode.name] = mode.client(t, addr)
	}
	for name, rdb := range clients {
		store := newStore(t, rdb)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		start := time.Now()
		_, err := store.List(ctx, guard.ListRequest{Limit: 10})
		took := time.Since(start)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || guard.Classify(err) != guard.ClassTimeout || took > 200*time.Millisecond {
			t.Errorf("%s: %v (%s) after %s", name, err, guard.Classify(err), took)
		}
	}
	store := newStore(t, srv.Client(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.List(ctx, guard.ListRequest{Limit: 10}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := new(Store).List(t.Context(), guard.ListRequest{}); err == nil {
		t.Error("a store without a client lists")
	}
}
