//go:build unix

package otlp

import (
	"slices"
	"syscall"
	"testing"

	"github.com/onceguard/onceguard/telemetry"
)

// TestLife_OfAChargeThatIsDuplicatedTakenOverAndReplayed has every attribute and link of the package comment
// exported by some process, with the type that it says and on the spans that it says.
func TestLife_OfAChargeThatIsDuplicatedTakenOverAndReplayed(t *testing.T) {
	t.Parallel()
	d := readDocumentation(t)
	t.Run("life", func(t *testing.T) {
		for name, live := range map[string]func(*lab){
			"the owner dies, the provider has the charge":      recovered,
			"the owner dies, the duplicate charges":            takenOver,
			"the owner dies, so does who asks the provider":    dispatchedTwice,
			"the owner stands still, and then comes too late":  late,
			"nobody knows, and there are other ways to end it": otherEnds,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				live(l)
				l.wantNoSecret()
				l.wantLogsOfTheTraces()
				d.judge(l)
			})
		}
	})
	if unseen := d.unseen(); len(unseen) > 0 && !t.Failed() {
		t.Errorf("documented, and exported by nobody: %q", unseen)
	}
}

// killsWhileItWaits starts a charge in a process and a duplicate in another, and kills the first.
func (l *lab) killsWhileItWaits(operation string, duplicate order) (b *process) {
	l.t.Helper()
	a, b := l.start("a"), l.start("b")
	a.do("original", operation, order{Then: "waits"})
	a.hear("original", "began")
	b.do("duplicate", operation, duplicate)
	l.exported(b, telemetry.SpanReserve, "pending", 1) // it has met the original
	a.kill()
	return b
}

func recovered(l *lab) {
	b, c := l.killsWhileItWaits(opPayment, order{}), l.start("c")
	b.ends("duplicate", "recovered")
	c.do("late", opPayment, order{})
	c.ends("late", "replayed")
	b.quit()
	c.quit()
	l.want("duplicate", `
		request
		  guard payment.safe = recovered, takeover true, dispatched true, took_over by original
		    guard.reserve = pending
		    guard.wait = executed, waited_for by original
		    guard.reserve = acquired
		    guard.recover = found, dispatched by original
		      ask
		    guard.replace = stored
	`)
	l.want("late", `
		request
		  guard payment.safe = replayed, replayed by duplicate
		    guard.reserve = completed
	`)
	l.wantRecord("duplicate", b, 2)
	l.wantRecord("late", b, 2)
}

func takenOver(l *lab) {
	b, c := l.killsWhileItWaits(opCharge, order{Then: "waits"}), l.start("c")
	b.hear("duplicate", "began")
	l.exported(b, telemetry.SpanRenew, "ok", 2)
	b.goOn("duplicate")
	b.ends("duplicate", "executed")
	c.do("late", opCharge, order{})
	c.ends("late", "replayed")
	c.do("another card", opCharge, order{Card: "5555" + l.card})
	c.fails("another card", "another input")
	b.quit()
	c.quit()
	l.want("duplicate", `
		request
		  guard payment.charge = executed, takeover true, took_over by original
		    guard.reserve = pending
		    guard.wait = executed, waited_for by original
		    guard.reserve = acquired
		    charge
		    guard.replace = stored
	`)
	l.want("late", `
		request
		  guard payment.charge = replayed, replayed by duplicate
		    guard.reserve = completed
	`)
	l.want("another card", `
		request
		  guard payment.charge = mismatched, error.type mismatch, mismatched by duplicate, ERROR
		    guard.reserve = completed
	`)
	l.wantRecord("duplicate", b, 2)
	l.wantRecord("late", b, 2)
	renewals := 0
	for _, s := range l.sink.all() {
		if s.GetName() == telemetry.SpanRenew && slices.Equal(s.GetParentSpanId(), l.callSpan("duplicate").GetSpanId()) {
			renewals++
		}
	}
	if renewals < 2 {
		l.t.Errorf("%d renewals below the call that took over, want 2 or more", renewals)
	}
}

func dispatchedTwice(l *lab) {
	b, c := l.killsWhileItWaits(opPayment, order{Hook: "waits"}), l.start("c")
	b.hear("duplicate", "asked")
	c.do("third", opPayment, order{})
	l.exported(c, telemetry.SpanReserve, "pending", 1)
	b.kill()
	c.ends("third", "recovered")
	c.quit()
	l.want("third", `
		request
		  guard payment.safe = recovered, takeover true, dispatched true, took_over by duplicate, dispatched by original
		    guard.reserve = pending
		    guard.wait = executed, waited_for by duplicate
		    guard.reserve = acquired
		    guard.recover = found, dispatched by original
		      ask
		    guard.replace = stored
	`)
}

func late(l *lab) {
	a, b := l.start("a"), l.start("b")
	a.do("original", opCharge, order{Then: "waits until lost"})
	a.hear("original", "began")
	if err := a.Signal(syscall.SIGSTOP); err != nil {
		l.t.Fatal(err)
	}
	b.do("duplicate", opCharge, order{})
	b.ends("duplicate", "executed")
	if err := a.Signal(syscall.SIGCONT); err != nil {
		l.t.Fatal(err)
	}
	a.hear("original", "lost")
	a.goOn("original")
	a.ends("original", "executed")
	a.quit()
	b.quit()
	l.want("original", `
		request
		  guard payment.charge = executed, lost_reason taken, stale true
		    guard.reserve = acquired
		    charge
		    guard.replace = stale
	`)
	l.want("duplicate", `
		request
		  guard payment.charge = executed, takeover true, took_over by original
		    guard.reserve = pending
		    guard.wait = executed, waited_for by original
		    guard.reserve = acquired
		    charge
		    guard.replace = stored
	`)
}

func otherEnds(l *lab) {
	b := l.killsWhileItWaits(opPayment, order{Hook: "fails"})
	b.fails("duplicate", "outcome")
	b.do("once more", opPayment, order{Hook: "finds nothing"})
	b.ends("once more", "executed")
	b.do("job panics", opOnce, order{Then: "panics"})
	b.fails("job panics", "panic")
	b.do("meets it", opOnce, order{})
	b.fails("meets it", "outcome")
	b.do("job with a large result", opCharge, order{Then: "is large"})
	b.ends("job with a large result", "executed")
	b.do("unguarded", opOff, order{})
	b.ends("unguarded", "unguarded")
	b.do("holds", opRefuse, order{Then: "waits"})
	b.hear("holds", "began")
	b.do("refused", opRefuse, order{})
	b.fails("refused", "in progress")
	b.goOn("holds")
	b.ends("holds", "executed")
	b.quit()
	l.want("duplicate", `
		request
		  guard payment.safe = unknown, takeover true, dispatched true, held_reason cannot_tell, error.type outcome_unknown, took_over by original, unknown by original, ERROR
		    guard.reserve = pending
		    guard.wait = executed, waited_for by original
		    guard.reserve = acquired
		    guard.recover = cannot_tell, error.type *errors.errorString, dispatched by original
		      ask
		    guard.replace = held
	`)
	l.want("once more", `
		request
		  guard payment.safe = executed, takeover true, dispatched true, took_over by original
		    guard.reserve = acquired
		    guard.recover = not_found, dispatched by original
		      ask
		    charge
		    guard.replace = stored
	`)
	l.want("job panics", `
		guard payment.once = failed, held_reason unwound, error.type unwound, ERROR
		  guard.reserve = acquired
		  charge
		  guard.replace = held
	`)
	l.want("meets it", `
		request
		  guard payment.once = unknown, error.type outcome_unknown, unknown by job panics, ERROR
		    guard.reserve = held
	`)
	l.want("job with a large result", `
		guard payment.charge = executed, unstored_reason too_large
		  guard.reserve = acquired
		  charge
		  guard.release = released
	`)
	l.want("unguarded", `
		request
		  guard payment.off = unguarded, unguarded_reason disabled
		    charge
	`)
	l.want("refused", `
		request
		  guard payment.refuse = refused, error.type in_progress, in_flight by holds, ERROR
		    guard.reserve = pending
	`)
}

// wantRecord compares what a call's span says of the record whose result it has with what the process has
// told that made it.
func (l *lab) wantRecord(call string, owner *process, attempt int64) {
	l.t.Helper()
	s, made := l.callSpan(call), owner.made()
	want := map[string]any{
		telemetry.AttrKeyHash: made.KeyHash, telemetry.AttrStore: "redis", telemetry.AttrLease: l.lease.Seconds(),
		telemetry.AttrFence: made.Fence, telemetry.AttrAttempt: attempt,
	}
	for key, value := range want {
		if got := valueOf(attributeOf(s.GetAttributes(), key)); got != value {
			l.t.Errorf("%s has %s = %v, want %v", call, key, got, value)
		}
	}
}

// made is the first call of the process that has made a record.
func (p *process) made() tale {
	p.lab.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, told := range p.tales {
		if told.How == "executed" || told.How == "recovered" {
			return told
		}
	}
	p.lab.t.Fatalf("%s has made no record", p.name)
	return tale{}
}

// wantLogsOfTheTraces wants that each log line leads to a span of the same key, if it was exported.
func (l *lab) wantLogsOfTheTraces() {
	l.t.Helper()
	hashes := map[string]string{}
	for _, s := range l.sink.all() {
		if s.isCall() {
			hashes[id(s.GetTraceId())] = s.text(telemetry.AttrKeyHash)
		}
	}
	found := 0
	for _, p := range l.processes {
		for _, line := range p.lines() {
			hash, ok := hashes[line.TraceID]
			if ok {
				found++
			}
			if ok && hash != line.KeyHash || line.KeyHash == "" || line.TraceID == "" {
				l.t.Errorf("%s has the line %+v, the span of that trace the key hash %q", p.name, line, hash)
			}
		}
	}
	if found == 0 {
		l.t.Error("no log line leads to a trace")
	}
}
