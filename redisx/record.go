package redisx

import (
	"strconv"
	"strings"
	"time"

	"github.com/onceguard/onceguard/guard"
)

const (
	// recordVersion is the version of the layout that is written. It is read, and
	// so are those before it; a record of a later one is in flight.
	recordVersion = guard.SchemaVersion
	magic         = "onceguard/"
	// maxExact is the largest integer that a Lua number holds exactly.
	maxExact = 1<<53 - 1
)

// details are the lines of a record that a client makes and the scripts pass
// through.
func details(rec guard.Record) string {
	var b strings.Builder
	b.WriteString(ownDetails(rec.Owner, rec.Fingerprint))
	if prev := rec.TookOver; prev != nil {
		line(&b, "prev_owner", escape(prev.Owner.Token, ""))
		line(&b, "prev_fence", strconv.FormatInt(prev.Fence, 10))
		line(&b, "prev_label", escape(prev.Owner.Label, ""))
		line(&b, "prev_traceparent", escape(prev.Owner.TraceParent, ""))
	}
	if dispatch := rec.Dispatch; dispatch != nil {
		line(&b, "dispatch_owner", escape(dispatch.Owner.Token, ""))
		line(&b, "dispatch_fence", strconv.FormatInt(dispatch.Fence, 10))
		line(&b, "dispatch_us", strconv.FormatInt(min(epoch(dispatch.At), maxExact), 10))
		line(&b, "dispatch_label", escape(dispatch.Owner.Label, ""))
		line(&b, "dispatch_traceparent", escape(dispatch.Owner.TraceParent, ""))
	}
	if resolver := rec.Resolved; resolver != nil {
		line(&b, "resolved_owner", escape(resolver.Token, ""))
		line(&b, "resolved_label", escape(resolver.Label, ""))
		line(&b, "resolved_traceparent", escape(resolver.TraceParent, ""))
	}
	b.WriteString(keptDetails(rec.Kept))
	return b.String()
}

// keptDetails are the lines of a reservation that was left to a later completion.
func keptDetails(kept *guard.Turn) string {
	if kept == nil {
		return ""
	}
	var b strings.Builder
	line(&b, "kept_job", escape(kept.Job, ""))
	line(&b, "kept_turn", strconv.FormatInt(kept.Number, 10))
	return b.String()
}

func ownDetails(owner guard.Owner, fingerprint guard.Fingerprint) string {
	var b strings.Builder
	line(&b, "label", escape(owner.Label, ""))
	line(&b, "traceparent", escape(owner.TraceParent, ""))
	line(&b, "fingerprint", formatFingerprint(fingerprint))
	return b.String()
}

func line(b *strings.Builder, name, value string) {
	b.WriteString(name)
	b.WriteByte('=')
	b.WriteString(value)
	b.WriteByte('\n')
}

func formatFingerprint(f guard.Fingerprint) string {
	if f == (guard.Fingerprint{}) {
		return ""
	}
	return escape(f.Algorithm, separator) + separator + escape(f.Digest, "")
}

func parseFingerprint(s string) guard.Fingerprint {
	algorithm, digest, _ := strings.Cut(s, separator)
	return guard.Fingerprint{Algorithm: plain(algorithm, separator), Digest: plain(digest, "")}
}

// plain is the text that was escaped, or the line as it is when somebody else
// wrote it: a label that cannot be unescaped is no reason not to read a record.
func plain(s, special string) string {
	if text, ok := unescape(s, special); ok {
		return text
	}
	return s
}

// parseRecord reads what the scripts write, by the same rules as theirs. Whatever
// it does not understand has the status unknown.
func parseRecord(raw string) guard.Record {
	p := parser{rest: raw}
	rec := p.record()
	if p.failed {
		return guard.Record{Version: versionOf(raw), Status: guard.StatusUnknown}
	}
	return rec
}

// parser reads the header line by line. After a failure it reads nothing more.
type parser struct {
	rest    string
	version int
	failed  bool
}

func (p *parser) record() guard.Record {
	status := p.status()
	rec := guard.Record{Version: p.version, Status: status}
	rec.Owner.Token = plain(p.value("owner"), "")
	rec.Fence = p.integer("fence")
	rec.Attempt = int(p.integer("attempt"))
	rec.Until = p.time("until_us")
	rec.Created = p.time("created_us")
	rec.Updated = p.time("updated_us")
	rec.Owner.Label = plain(p.value("label"), "")
	rec.Owner.TraceParent = plain(p.value("traceparent"), "")
	rec.Fingerprint = parseFingerprint(p.value("fingerprint"))
	if strings.HasPrefix(p.rest, "prev_owner=") {
		rec.TookOver = p.previous()
	}
	if strings.HasPrefix(p.rest, "dispatch_owner=") {
		rec.Dispatch = p.dispatch()
	}
	if strings.HasPrefix(p.rest, "resolved_owner=") {
		rec.Resolved = p.resolver()
	}
	if strings.HasPrefix(p.rest, "kept_job=") {
		rec.Kept = &guard.Turn{Job: plain(p.value("kept_job"), ""), Number: p.integer("kept_turn")}
	}
	// Whoever took a held record without its evidence would not know what may have happened.
	p.failed = p.failed || rec.Status == guard.StatusHeld && rec.Dispatch == nil
	rec.Encoding = plain(p.value("encoding"), "")
	rec.Result = p.result(rec.Status)
	return rec
}

func (p *parser) previous() *guard.Previous {
	var prev guard.Previous
	prev.Owner.Token = plain(p.value("prev_owner"), "")
	prev.Fence = p.integer("prev_fence")
	prev.Owner.Label = plain(p.value("prev_label"), "")
	prev.Owner.TraceParent = plain(p.value("prev_traceparent"), "")
	return &prev
}

func (p *parser) dispatch() *guard.Dispatch {
	var dispatch guard.Dispatch
	dispatch.Owner.Token = plain(p.value("dispatch_owner"), "")
	dispatch.Fence = p.integer("dispatch_fence")
	dispatch.At = p.time("dispatch_us")
	dispatch.Owner.Label = plain(p.value("dispatch_label"), "")
	dispatch.Owner.TraceParent = plain(p.value("dispatch_traceparent"), "")
	return &dispatch
}

func (p *parser) resolver() *guard.Owner {
	var resolver guard.Owner
	resolver.Token = plain(p.value("resolved_owner"), "")
	resolver.Label = plain(p.value("resolved_label"), "")
	resolver.TraceParent = plain(p.value("resolved_traceparent"), "")
	return &resolver
}

func (p *parser) status() guard.Status {
	first := p.line()
	p.version = versionOf(first)
	_, word, ok := strings.Cut(first, " ")
	ok = ok && p.version >= 1 && p.version <= recordVersion
	status := guard.Status(word)
	p.failed = p.failed || !ok || !known(status)
	return status
}

func known(status guard.Status) bool {
	return status == guard.StatusPending || status == guard.StatusHeld || status == guard.StatusReleased || settled(status)
}

// settled says whether a record of this status tells how it ended.
func settled(status guard.Status) bool {
	return status == guard.StatusCompleted || status == guard.StatusFailed
}

func (p *parser) line() string {
	text, rest, ok := strings.Cut(p.rest, "\n")
	if !ok {
		p.failed = true
	}
	if p.failed {
		return ""
	}
	p.rest = rest
	return text
}

func (p *parser) value(name string) string {
	value, ok := strings.CutPrefix(p.line(), name+"=")
	p.failed = p.failed || !ok
	return value
}

func (p *parser) integer(name string) int64 {
	n, err := strconv.ParseUint(p.value(name), 10, 64)
	if err != nil || n > maxExact {
		p.failed = true
		return 0
	}
	return int64(n)
}

func (p *parser) time(name string) time.Time {
	return time.UnixMicro(p.integer(name)).UTC()
}

// result is what follows the empty line. Only a completed or failed record has one.
func (p *parser) result(status guard.Status) []byte {
	if p.line() != "" {
		p.failed = true
	}
	if p.failed || !settled(status) {
		return nil
	}
	return []byte(p.rest)
}

// versionOf is the version that the first line states, 0 when it states none.
func versionOf(raw string) int {
	rest, ok := strings.CutPrefix(raw, magic)
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, " ")
	version, err := strconv.Atoi(digits)
	if err != nil || strconv.Itoa(version) != digits { // as the scripts, no leading zero and no sign
		return 0
	}
	return version
}
