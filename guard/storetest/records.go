package storetest

import (
	"bytes"
	"strings"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// lookalikes are texts that a careless record layout takes for its own.
func lookalikes() []string {
	return []string{
		"", " ", "plain", "two\nlines", "\n", "\n\n", "\r\n", "a=b", "=", "status=completed\nowner=me\n\n{}",
		"a:b", ":", "%", "%0A", "%25", "100%", "tab\tnul\x00del\x7f", "💳 é ß", `"quoted" 'text' \n`, "{}[]|,;",
		"onceguard/1 completed\nowner=x\n", strings.Repeat("long ", 200),
	}
}

func recordClauses() []clause {
	return []clause{
		{"a result comes back byte for byte", func(e *env) {
			for name, result := range results() {
				at := e.at(newKey())
				at.replaceWith(at.acquire(newOwner()), result, retention)
				if got := at.stored().Result; string(got) != result {
					e.Errorf("%s: %d bytes came back as %d others", name, len(result), len(got))
				}
				if got := at.refused(at.reserve(newOwner())).Result; string(got) != result {
					e.Errorf("%s: %d bytes were replied as %d others", name, len(result), len(got))
				}
			}
		}},
		{"an owner's label and trace come back", func(e *env) {
			for _, text := range lookalikes() {
				at := e.at(newKey())
				owner := guard.Owner{Token: newOwner().Token, Label: text, TraceParent: text}
				if got := at.acquire(owner).Owner; got != owner {
					e.Errorf("owner %+q, want %+q", got, owner)
				}
				at.sameAcquisition(at.stored(), at.acquire(owner))
			}
		}},
		{"the label and trace of a previous owner come back", func(e *env) {
			for _, text := range lookalikes() {
				at := e.at(newKey())
				dead := guard.Owner{Token: newOwner().Token, Label: text, TraceParent: text}
				first := at.diesAs(dead, time.Millisecond)
				rec := at.acquire(newOwner())
				at.samePrevious(rec.TookOver, &guard.Previous{Owner: dead, Fence: first.Fence})
			}
		}},
		{"a fingerprint comes back", func(e *env) {
			for _, text := range lookalikes() {
				for _, f := range []guard.Fingerprint{{Algorithm: text}, {Digest: text}, {Algorithm: text, Digest: text}} {
					e.wantFingerprint(f)
				}
			}
		}},
		{"an encoding comes back", func(e *env) {
			for _, text := range lookalikes() {
				at := e.at(newKey())
				_, err := at.store.Replace(at.ctx(), guard.ReplaceRequest{
					Key: at.key, Record: at.acquire(newOwner()), Encoding: text, Result: []byte(receipt),
					Lease: longLease, Retention: retention,
				})
				at.check("replace", err)
				if got := at.stored(); got.Encoding != text || string(got.Result) != receipt {
					e.Errorf("encoding %q, want %q; result %q", got.Encoding, text, got.Result)
				}
			}
		}},
		{"a caller's changes to its bytes do not reach the store", bytesAreTheCallersOwn},
	}
}

func results() map[string]string {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	all := map[string]string{
		"every byte":         string(every),
		"a MiB of any bytes": strings.Repeat(string(every), 4096),
		"a MiB of newlines":  strings.Repeat("\n", 1<<20),
		"JSON null":          "null",
		"not UTF-8":          "\xff\xfe\x00",
	}
	for _, text := range lookalikes() {
		all[text] = text
	}
	return all
}

func (e *env) wantFingerprint(f guard.Fingerprint) {
	e.Helper()
	at := e.at(newKey())
	reply, err := at.store.Reserve(at.ctx(), guard.ReserveRequest{
		Key: at.key, Owner: newOwner(), Fingerprint: f, Lease: longLease, Retention: retention,
	})
	at.check("reserve", err)
	if got := at.acquired(reply).Fingerprint; got != f {
		e.Errorf("fingerprint %+q, want %+q", got, f)
	}
	if got := at.stored().Fingerprint; got != f {
		e.Errorf("stored fingerprint %+q, want %+q", got, f)
	}
}

func bytesAreTheCallersOwn(e *env) {
	given := []byte(receipt)
	_, err := e.store.Replace(e.ctx(), guard.ReplaceRequest{
		Key: e.key, Record: e.acquire(newOwner()), Encoding: encoding, Result: given,
		Lease: longLease, Retention: retention,
	})
	e.check("replace", err)
	for _, mine := range [][]byte{given, e.stored().Result, e.refused(e.reserve(newOwner())).Result} {
		copy(mine, bytes.Repeat([]byte{'x'}, len(mine)))
	}
	if got := string(e.stored().Result); got != receipt {
		e.Errorf("result %q, want %q", got, receipt)
	}
}

func unreadableClauses() []clause {
	return []clause{
		{"a record that cannot be read counts as in flight", func(e *env) {
			e.spoiled()
			e.unchanged(func() {
				if rec := e.refused(e.reserve(newOwner())); rec.Status != guard.StatusUnknown {
					e.Errorf("status %q, want %q", rec.Status, guard.StatusUnknown)
				}
			})
		}},
		{"it is found, as unknown", func(e *env) {
			e.spoiled()
			if rec := e.stored(); rec.Status != guard.StatusUnknown || len(rec.Result) != 0 {
				e.Errorf("status %q with a result of %d bytes", rec.Status, len(rec.Result))
			}
		}},
		{"it is lost to a renewal and stays", func(e *env) {
			rec := e.spoiled()
			e.unchanged(func() { e.wantLost(rec) })
		}},
		{"it makes a result stale and stays", func(e *env) {
			rec := e.spoiled()
			e.unchanged(func() { e.wantReplace(rec, guard.ReplaceStale) })
		}},
		{"it is not released and stays", func(e *env) {
			rec := e.spoiled()
			e.unchanged(func() { e.wantRelease(rec, false) })
		}},
		{"it is not held and stays", func(e *env) {
			rec := e.spoiled()
			e.unchanged(func() { e.wantHold(rec, guard.HoldRefused) })
		}},
		{"it is not taken by those who recover and stays", func(e *env) {
			e.spoiled()
			e.unchanged(func() { e.wantHeldNow(e.ask(recovering()), false) })
		}},
		{"it is not settled and stays", func(e *env) {
			rec := e.spoiled()
			e.unchanged(func() {
				for _, fence := range []int64{rec.Fence, e.stored().Fence} {
					req := settlement(guard.Record{Fence: fence}, guard.StatusReleased)
					req.Live = true
					if e.resolveBy(req).Resolved {
						e.Error("a record that may be a newer version's was settled")
					}
				}
			})
		}},
	}
}

// spoiled is an owner whose record has become unreadable.
func (e *env) spoiled() guard.Record {
	e.Helper()
	if e.harness.Spoil == nil {
		e.Skip("the harness cannot make a record unreadable")
	}
	rec := e.acquire(newOwner())
	e.harness.Spoil(e.T, e.store, e.key)
	return rec
}
