//go:build unix

package otlp

import (
	"slices"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/telemetry"
)

func TestCase_O6_OverOTLPOnlyWhatFailedItsCallerIsAnError(t *testing.T) {
	t.Parallel()
	redis := realtest.Redis(t)
	l := newLab(t)
	l.redis, l.lease = redis.Addr(), 3*lease // of which an outage takes a part
	a, b, c := l.start("a"), l.start("b"), l.start("c")

	a.do("original", opCharge, order{Then: "waits"})
	a.hear("original", "began")
	b.do("waits", opCharge, order{})
	l.exported(b, telemetry.SpanReserve, "pending", 1)
	a.goOn("original")
	a.ends("original", "executed")
	b.ends("waits", "replayed")
	c.do("replays", opCharge, order{})
	c.ends("replays", "replayed")

	c.do("fails to renew", opCharge, order{Key: "another-" + l.card, Then: "waits"})
	c.hear("fails to renew", "began")
	redis.Pause()
	c.do("without a store", opCharge, order{Key: "unguarded-" + l.card})
	c.do("stays away", opClosed, order{})
	c.ends("without a store", "unguarded")
	c.fails("stays away", "the action did not run")
	l.fails(telemetry.SpanRenew)
	l.fails(telemetry.SpanRelease) // of what the other call may have reserved
	redis.Resume()
	c.goOn("fails to renew")
	c.ends("fails to renew", "executed")
	a.quit()
	b.quit()
	c.quit()

	l.want("waits", `
		request
		  guard payment.charge = replayed, replayed by original
		    guard.reserve = pending
		    guard.wait = replayed, waited_for by original
	`)
	l.want("replays", `
		request
		  guard payment.charge = replayed, replayed by original
		    guard.reserve = completed
	`)
	for _, call := range []string{"original", "waits", "replays"} {
		l.wantRecord(call, a, 1)
	}
	l.want("without a store", `
		request
		  guard payment.charge = unguarded, unguarded_reason storage, unstored_reason storage
		    guard.reserve, error.type timeout
		    charge
		    guard.replace, error.type timeout
	`)
	l.want("fails to renew", `
		request
		  guard payment.charge = executed
		    guard.reserve = acquired
		    charge
		    guard.replace = stored
	`)
	l.want("stays away", `
		request
		  guard payment.closed = rejected, error.type timeout, ERROR
		    guard.reserve, error.type timeout
		    guard.release, error.type timeout
	`)
	l.wantNoSecret()
	readDocumentation(t).judge(l)
}

// fails waits until a span is exported of a phase whose store call has failed.
func (l *lab) fails(phase string) {
	l.t.Helper()
	l.until("a "+phase+" that failed is exported", func() bool {
		return slices.ContainsFunc(l.sink.all(), func(s span) bool {
			return s.GetName() == phase && s.text(telemetry.AttrErrorType) == "timeout"
		})
	})
}

func TestCase_O2_NoSecretGoesOverOTLP(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.start("a"), l.start("b")
	a.do("declined", opCharge, order{Then: "fails"})
	a.fails("declined", l.card)
	a.do("panics", opCharge, order{Then: "panics"})
	a.fails("panics", "panic")
	a.do("large", opCharge, order{Then: "is large"})
	a.ends("large", "executed")
	a.do("broken", opCharge, order{Then: "is broken"})
	a.ends("broken", "executed")
	a.do("charged", opCharge, order{})
	a.ends("charged", "executed")
	b.do("replayed", opCharge, order{})
	b.ends("replayed", "replayed")
	b.do("of another input", opCharge, order{Card: l.card + l.card})
	b.fails("of another input", "another input")
	b.do("of a bad key", opCharge, order{Key: l.card + "\n"})
	b.fails("of a bad key", "key")
	a.do("leaves it held", opPayment, order{Then: "fails"})
	a.fails("leaves it held", l.card)
	b.do("asks in vain", opPayment, order{Hook: "fails"})
	b.fails("asks in vain", l.card)
	a.quit()
	b.quit()
	l.wantNoSecret()
	l.wantLogsOfTheTraces()
	readDocumentation(t).judge(l)
	l.want("broken", `
		request
		  guard payment.charge = executed, unstored_reason encoding
		    guard.reserve = acquired
		    charge
		    guard.release = released
	`)
	for call, kind := range map[string]string{
		"declined": "*errors.errorString", "panics": "unwound", "of another input": "mismatch", "of a bad key": "invalid_key",
		"leaves it held": "*errors.errorString", "asks in vain": "outcome_unknown",
	} {
		if s := l.callSpan(call); s.text(telemetry.AttrErrorType) != kind {
			t.Errorf("%s has the error.type %q, want %q", call, s.text(telemetry.AttrErrorType), kind)
		}
	}
}
