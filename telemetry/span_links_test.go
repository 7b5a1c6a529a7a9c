package telemetry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// wantLink checks that a span has one link, to another span.
func wantLink(t *testing.T, s, to tracetest.SpanStub, relation string) {
	t.Helper()
	if len(s.Links) != 1 {
		t.Fatalf("span %q has %d links, want 1", s.Name, len(s.Links))
	}
	link := s.Links[0]
	if link.SpanContext.TraceID() != to.SpanContext.TraceID() || link.SpanContext.SpanID() != to.SpanContext.SpanID() {
		t.Errorf("span %q links to %v, want %q", s.Name, link.SpanContext.SpanID(), to.Name)
	}
	if want := attribute.String(telemetry.AttrLink, relation); !slices.Contains(link.Attributes, want) {
		t.Errorf("link of %q is %v, want %s", s.Name, link.Attributes, relation)
	}
}

func TestCase_O6_AReplayIsNoErrorAndLinksToTheRunItReturns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	op := l.op(t, guard.NewMemoryStore())
	for range 2 {
		if _, err := op.Do(t.Context(), "order-1", returns("done")); err != nil {
			t.Fatal(err)
		}
	}
	calls := l.named(spanCall)
	if len(calls) != 2 {
		t.Fatalf("%d calls, want 2", len(calls))
	}
	wantLink(t, calls[1], calls[0], telemetry.LinkReplayed)
	wantStatus(t, calls[1], codes.Unset)
	wantAttrs(t, calls[1], map[string]string{
		telemetry.AttrOutcome: "replayed",
		telemetry.AttrFence:   attrs(calls[0])[telemetry.AttrFence],
	})
	if len(calls[0].Links) != 0 {
		t.Errorf("the first call has the links %v", calls[0].Links)
	}
}

func TestCase_O6_AWaitIsNoErrorAndLinksToTheOwnerWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		op := l.op(t, guard.NewMemoryStore())
		done := make(chan error)
		go func() {
			_, err := op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
				time.Sleep(time.Second)
				return "done", nil
			})
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		wantSamples(t, l.registry, map[string]string{`onceguard_waiters{}`: "0", `onceguard_leases_held{}`: "1"})
		go func() {
			_, err := op.Do(t.Context(), "order-1", returns("again"))
			done <- err
		}()
		synctest.Wait()
		wantSamples(t, l.registry, map[string]string{`onceguard_waiters{}`: "1", `onceguard_collisions_total{}`: "1"})
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
		calls, wait := l.named(spanCall), l.one(t, telemetry.SpanWait)
		wantLink(t, wait, calls[0], telemetry.LinkWaitedFor)
		wantLink(t, calls[1], calls[0], telemetry.LinkReplayed)
		wantChild(t, wait, calls[1])
		wantStatus(t, wait, codes.Unset)
		wantStatus(t, calls[1], codes.Unset)
		wantAttrs(t, wait, map[string]string{telemetry.AttrPhaseResult: "replayed"})
		wantSamples(t, l.registry, map[string]string{`onceguard_waiters{}`: "0", `onceguard_hits_total{}`: "1"})
	})
}

func TestSpans_AMismatchLinksToTheCallThatUsedTheKey(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	op := l.op(t, guard.NewMemoryStore())
	if _, err := op.Do(t.Context(), "order-1", returns("done"), guard.WithInput(1)); err != nil {
		t.Fatal(err)
	}
	_, err := op.Do(t.Context(), "order-1", returns("done"), guard.WithInput(2))
	if !errors.Is(err, guard.ErrMismatch) {
		t.Fatalf("err = %v", err)
	}
	calls := l.named(spanCall)
	wantLink(t, calls[1], calls[0], telemetry.LinkMismatched)
	wantStatus(t, calls[1], codes.Error)
	wantAttrs(t, calls[1], map[string]string{telemetry.AttrErrorType: "mismatch", telemetry.AttrOutcome: "mismatched"})
}

// reserved leaves a reservation of another owner in a store.
func reserved(ctx context.Context, t *testing.T, store guard.Store, traceParent string, lease time.Duration) {
	t.Helper()
	reply, err := store.Reserve(ctx, guard.ReserveRequest{
		Key:       guard.Key{Operation: opName, Name: "order-1"},
		Owner:     guard.Owner{Token: "other", Label: "host/2", TraceParent: traceParent},
		Lease:     lease,
		Retention: time.Hour,
	})
	if err != nil || !reply.Acquired {
		t.Fatalf("reserve = %+v, %v", reply, err)
	}
}

const (
	otherTrace       = "0af7651916cd43dd8448eb211c80319c"
	otherTraceParent = "00-" + otherTrace + "-b7ad6b7169203331-01"
)

func TestSpans_ARefusalLinksToTheOwnerOfTheKey(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	store := guard.NewMemoryStore()
	reserved(t.Context(), t, store, otherTraceParent, time.Minute)
	_, err := l.op(t, store, guard.OnInFlight(guard.Refuse)).Do(t.Context(), "order-1", returns("done"))
	if !errors.Is(err, guard.ErrInProgress) {
		t.Fatalf("err = %v", err)
	}
	call := l.one(t, spanCall)
	if len(call.Links) != 1 || call.Links[0].SpanContext.TraceID().String() != otherTrace {
		t.Errorf("links %v, want one to the owner", call.Links)
	}
	wantStatus(t, call, codes.Error)
	wantAttrs(t, call, map[string]string{telemetry.AttrErrorType: "in_progress", telemetry.AttrOutcome: "refused"})
}

func TestSpans_ATakeoverLinksToTheOwnerThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		store := guard.NewMemoryStore()
		reserved(t.Context(), t, store, otherTraceParent, time.Second)
		time.Sleep(2 * time.Second)
		if _, err := l.op(t, store).Do(t.Context(), "order-1", returns("done")); err != nil {
			t.Fatal(err)
		}
		call := l.one(t, spanCall)
		if len(call.Links) != 1 || call.Links[0].SpanContext.TraceID().String() != otherTrace ||
			!call.Links[0].SpanContext.IsSampled() {
			t.Errorf("links %v, want one to the owner before", call.Links)
		}
		wantAttrs(t, call, map[string]string{telemetry.AttrTakeover: "true", telemetry.AttrAttempt: "2"})
		wantSamples(t, l.registry, map[string]string{
			`onceguard_takeovers_total{dispatched="false"}`: "1",
			`onceguard_takeovers_total{dispatched="true"}`:  "0",
		})
	})
}

func TestSpans_ABrokenTraceContextInARecordIsIgnored(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{
		"", "x", otherTrace, otherTraceParent + "0", strings.ToUpper(otherTraceParent),
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"ff-" + otherTrace + "-b7ad6b7169203331-01",
	} {
		l := newLab(t)
		store := guard.NewMemoryStore()
		reserved(t.Context(), t, store, broken, time.Minute)
		_, _ = l.op(t, store, guard.OnInFlight(guard.Refuse)).Do(t.Context(), "order-1", returns("done"))
		if links := l.one(t, spanCall).Links; len(links) != 0 {
			t.Errorf("%q gave the links %v", broken, links)
		}
	}
}

func TestSpans_AWaitLinksToEachOwnerThatItWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		store := guard.NewMemoryStore()
		op := l.op(t, store, guard.WithWaitBound(time.Minute))
		traces := []string{
			"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		}
		reserve := func(i int) {
			if _, err := store.Reserve(t.Context(), guard.ReserveRequest{
				Key:   guard.Key{Operation: opName, Name: "order-1"},
				Owner: guard.Owner{Token: traces[i], TraceParent: traces[i]}, Lease: 10 * time.Second, Retention: time.Hour,
			}); err != nil {
				t.Error(err)
			}
		}
		reserve(0)
		done := make(chan error, 1)
		go func() {
			time.Sleep(10 * time.Second) // the first owner is dead: the second one is quicker than the waiter
			reserve(1)
		}()
		go func() {
			_, err := op.Do(t.Context(), "order-1", returns("mine"))
			done <- err
		}()
		if err := <-done; err != nil {
			t.Error(err)
		}
		var linked []string
		for _, link := range l.one(t, telemetry.SpanWait).Links {
			linked = append(linked, link.SpanContext.TraceID().String())
		}
		if want := []string{traces[0][3:35], traces[1][3:35]}; !slices.Equal(linked, want) {
			t.Errorf("links %v, want %v", linked, want)
		}
	})
}
