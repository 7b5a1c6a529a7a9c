package redisx

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

// TestRecord_ReadsInRedisCLI is what an operator sees who types GET.
func TestRecord_ReadsInRedisCLI(t *testing.T) {
	rdb := realtest.SharedRedis(t).Client(t)
	store, key := newStore(t, rdb), testKey(t)
	dead := acquire(t, store, key, guard.Owner{Token: "77d3b1f0", Label: "pay-5d2a/1"}, time.Millisecond)
	for mustLoad(t, store, key).Left > 0 {
		time.Sleep(time.Millisecond)
	}
	rec := acquire(t, store, key, guard.Owner{
		Token: "5f0c9e6a", Label: "pay-7c9f/1\nworker 100%",
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}, testLease)
	mustReplace(t, store, key, rec, `{"charge":"ch_1"}`)
	done := mustLoad(t, store, key).Record

	wantRaw(t, rdb, key, `onceguard/1 completed
owner=5f0c9e6a
fence=%d
attempt=2
until_us=%d
created_us=%d
updated_us=%d
label=pay-7c9f/1%%0Aworker 100%%25
traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
fingerprint=sha256-json:9f86d081
prev_owner=77d3b1f0
prev_fence=%d
prev_label=pay-5d2a/1
prev_traceparent=
encoding=json

{"charge":"ch_1"}`, rec.Fence, done.Until.UnixMicro(), rec.Created.UnixMicro(), done.Updated.UnixMicro(), dead.Fence)
}

// TestRecord_AHeldOneReadsInRedisCLI: who is asked about a key that is blocked finds
// who may have had the effect, and when.
func TestRecord_AHeldOneReadsInRedisCLI(t *testing.T) {
	rdb := realtest.SharedRedis(t).Client(t)
	store, key := newStore(t, rdb), testKey(t)
	rec := acquire(t, store, key, guard.Owner{
		Token: "5f0c9e6a", Label: "pay-7c9f/1", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}, testLease)
	mustHold(t, store, key, rec, guard.HoldHeld)
	held := mustLoad(t, store, key).Record
	wantRaw(t, rdb, key, `onceguard/1 held
owner=5f0c9e6a
fence=%d
attempt=1
until_us=%d
created_us=%d
updated_us=%d
label=pay-7c9f/1
traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
fingerprint=sha256-json:9f86d081
dispatch_owner=5f0c9e6a
dispatch_fence=%d
dispatch_us=%d
dispatch_label=pay-7c9f/1
dispatch_traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
encoding=

`, rec.Fence, held.Until.UnixMicro(), rec.Created.UnixMicro(), held.Updated.UnixMicro(), rec.Fence, held.Updated.UnixMicro())

	reply := mustResolve(t, store, guard.ResolveRequest{
		Key: key, Fence: rec.Fence, Resolver: guard.Owner{Token: "9c0d1e2f", Label: "ann@ops:\n1"},
		As: guard.StatusFailed, Encoding: "text", Result: []byte("declined\n"), Lease: testLease, Retention: testRetention,
	})
	wantRaw(t, rdb, key, `onceguard/1 failed
owner=5f0c9e6a
fence=%d
attempt=1
until_us=%d
created_us=%d
updated_us=%d
label=pay-7c9f/1
traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
fingerprint=sha256-json:9f86d081
resolved_owner=9c0d1e2f
resolved_label=ann@ops:%%0A1
resolved_traceparent=
encoding=text

declined
`, reply.Record.Fence, reply.Record.Until.UnixMicro(), rec.Created.UnixMicro(), reply.Record.Updated.UnixMicro())
}

func wantRaw(t *testing.T, rdb *redis.Client, key guard.Key, format string, args ...any) {
	t.Helper()
	got, err := rdb.Get(t.Context(), storageKey(DefaultPrefix, key)).Result()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(format, args...); got != want {
		t.Errorf("GET:\n%s\nwant:\n%s", got, want)
	}
}

// format writes a record as the scripts do.
func format(rec guard.Record) string {
	return fmt.Sprintf("onceguard/%d %s\nowner=%s\nfence=%d\nattempt=%d\nuntil_us=%d\ncreated_us=%d\nupdated_us=%d\n%sencoding=%s\n\n%s",
		rec.Version, rec.Status, escape(rec.Owner.Token, ""), rec.Fence, rec.Attempt,
		rec.Until.UnixMicro(), rec.Created.UnixMicro(), rec.Updated.UnixMicro(),
		details(rec), escape(rec.Encoding, ""), rec.Result)
}

func sample(text string, n int64, result []byte) guard.Record {
	return guard.Record{
		Version: recordVersion, Status: guard.StatusCompleted,
		Owner: guard.Owner{Token: text, Label: text, TraceParent: text},
		Fence: n, Attempt: int(n),
		Until: time.UnixMicro(n).UTC(), Created: time.UnixMicro(n).UTC(), Updated: time.UnixMicro(n).UTC(),
		Fingerprint: guard.Fingerprint{Algorithm: text, Digest: text},
		TookOver:    &guard.Previous{Owner: guard.Owner{Token: text, Label: text, TraceParent: text}, Fence: n},
		Dispatch: &guard.Dispatch{
			Owner: guard.Owner{Token: text, Label: text, TraceParent: text}, Fence: n, At: time.UnixMicro(n).UTC(),
		},
		Resolved: &guard.Owner{Token: text, Label: text, TraceParent: text},
		Encoding: text, Result: result,
	}
}

func FuzzRecord_ComesBack(f *testing.F) {
	f.Add("", int64(0), []byte{}, byte(7), true)
	f.Add("a\nowner=b\n\n", int64(1), []byte("onceguard/1 pending\n"), byte(1), false)
	f.Add("100%:%0A", int64(maxExact), []byte("\n\n"), byte(0), true)
	f.Add("\x00\xff💳", int64(1767225600000000), []byte{0, 0xff, '\n'}, byte(2), true)
	f.Add("prev_owner=", int64(2), []byte("{}"), byte(4), false)
	f.Fuzz(func(t *testing.T, text string, n int64, result []byte, parts byte, failed bool) {
		if n < 0 || n > maxExact {
			t.Skip("out of range")
		}
		want := sample(text, n, append([]byte{}, result...))
		if failed {
			want.Status = guard.StatusFailed
		}
		if parts&1 == 0 {
			want.TookOver = nil
		}
		if parts&2 == 0 {
			want.Dispatch = nil
		}
		if parts&4 == 0 {
			want.Resolved = nil
		}
		if got := parseRecord(format(want)); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// FuzzRecord_ScriptsReadAsWeDo: what one side can read and the other cannot would
// be a key that is in flight to one and free to the other.
func FuzzRecord_ScriptsReadAsWeDo(f *testing.F) {
	whole := format(sample("a:b%", 1767225600000000, []byte("\n\n{}")))
	f.Add([]byte(whole))
	f.Add([]byte(""))
	f.Add([]byte("\n"))
	lines := strings.SplitAfter(whole, "\n")
	for i := range lines {
		f.Add([]byte(strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), ""))) // one line short
		f.Add([]byte(strings.Join(lines[:i], "")))                                                // cut off
		f.Add([]byte(strings.Join(lines[:i], "") + "more=x\n" + strings.Join(lines[i:], "")))     // one line more
		f.Add([]byte(strings.Join(lines[:i], "") + "x" + strings.Join(lines[i:], "")))            // another name
	}
	for _, parts := range [][]string{
		{"dispatch_"},
		{"resolved_"},
		{"prev_", "dispatch_"},
		{"prev_", "dispatch_", "resolved_"},
	} {
		some := without(whole, parts...)
		f.Add([]byte(some))
		f.Add([]byte(strings.Replace(some, "completed", "held", 1)))
		f.Add([]byte(strings.Replace(some, "completed", "failed", 1)))
	}
	for i := 10; i < len(lines); i++ { // blocks in another order
		f.Add([]byte(strings.Join(append(append(append([]string{}, lines[:i]...), lines[i+1:]...), lines[i]), "")))
	}
	dispatch, resolved := strings.Index(whole, "dispatch_owner"), strings.Index(whole, "resolved_owner")
	f.Add([]byte(whole[:dispatch] + whole[resolved:strings.Index(whole, "encoding=")] + whole[dispatch:resolved]))
	for _, change := range [][2]string{
		{"onceguard/1", "onceguard/2"},
		{"onceguard/1", "onceguard/01"},
		{"onceguard/1", "Onceguard/1"},
		{"onceguard/1 ", "onceguard/1  "},
		{"onceguard/", "onceguard/x"},
		{"completed", "held"},
		{"completed", "pending"},
		{"completed\n", "completed\r\n"},
		{"=1767225600000000", "="},
		{"=1767225600000000", "=-1"},
		{"=1767225600000000", "=1.5"},
		{"=1767225600000000", "= 1"},
		{"=1767225600000000", "=0x1"},
		{"=1767225600000000", "=1e3"},
		{"=1767225600000000", "=9007199254740991"},
		{"=1767225600000000", "=9007199254740992"},
		{"=1767225600000000", "=9007199254740993"},
		{"=1767225600000000", "=00000000000000000000000000001"},
		{"=1767225600000000", "=99999999999999999999999999999"},
		{"prev_fence=1767225600000000", "prev_fence=9007199254740992"},
		{"dispatch_fence=1767225600000000", "dispatch_fence=9007199254740992"},
		{"dispatch_us=1767225600000000", "dispatch_us=9007199254740992"},
		{"dispatch_us=1767225600000000", "dispatch_us="},
		{"completed", "failed"},
		{"completed", "released"},
		{"label=a", "label=\x00"},
		{"label=a", "label=%zz"},
		{"encoding=a", "encoding=\r"},
	} {
		f.Add([]byte(strings.ReplaceAll(whole, change[0], change[1])))
	}
	rdb := realtest.SharedRedis(f).Client(f)
	script := newScript("return parse(ARGV[1]).status")
	f.Fuzz(func(t *testing.T, raw []byte) {
		status, err := script.Run(t.Context(), rdb, []string{"unused"}, raw).Text()
		if err != nil {
			t.Fatal(err)
		}
		if got := parseRecord(string(raw)); string(got.Status) != status {
			t.Errorf("%q is %s to us and %s to the scripts", raw, got.Status, status)
		}
	})
}

// without drops the lines whose name begins so.
func without(raw string, parts ...string) string {
	var b strings.Builder
	for line := range strings.Lines(raw) {
		if !slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(line, part) }) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestParseRecord_KeepsALabelThatNobodyEscaped(t *testing.T) {
	raw := strings.Replace(format(sample("a", 1, nil)), "label=a", "label=100%", 1)
	if got := parseRecord(raw).Owner.Label; got != "100%" {
		t.Errorf("label %q", got)
	}
}

func TestParseRecord_SaysWhichVersionItCannotRead(t *testing.T) {
	for raw, want := range map[string]int{
		"onceguard/2 pending\n": 2, "onceguard/1 held\n": 1, "onceguard/x pending\n": 0, "onceguard/12": 12, "{}": 0, "": 0,
	} {
		if got := parseRecord(raw); got.Version != want || got.Status != guard.StatusUnknown || got.Result != nil {
			t.Errorf("%q: %+v", raw, got)
		}
	}
}

func TestParseRecord_OnlyASettledOneHasAResult(t *testing.T) {
	rec := sample("a", 1, []byte("{}"))
	for _, rec.Status = range []guard.Status{guard.StatusPending, guard.StatusHeld, guard.StatusReleased} {
		if got := parseRecord(format(rec)); got.Status != rec.Status || got.Result != nil {
			t.Errorf("%s: result %q", got.Status, got.Result)
		}
	}
	rec.Result = nil
	for _, rec.Status = range []guard.Status{guard.StatusCompleted, guard.StatusFailed} {
		if got := parseRecord(format(rec)); got.Status != rec.Status || got.Result == nil || !bytes.Equal(got.Result, nil) {
			t.Errorf("%s: result %#v, want an empty one", got.Status, got.Result)
		}
	}
}

func TestParseRecord_AHeldOneSaysWhoDispatchedIt(t *testing.T) {
	rec := sample("a", 1, nil)
	rec.Status, rec.Dispatch = guard.StatusHeld, nil
	if got := parseRecord(format(rec)); got.Status != guard.StatusUnknown || got.Version != recordVersion {
		t.Errorf("%+v: whoever takes it over would not know what may have happened", got)
	}
}
