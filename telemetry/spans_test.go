package telemetry_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

const spanCall = telemetry.SpanCallPrefix + opName

// named returns the spans of a name, in the order of their end.
func (l *lab) named(name string) tracetest.SpanStubs {
	var found tracetest.SpanStubs
	for _, s := range l.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// one returns the only span of a name.
func (l *lab) one(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	found := l.named(name)
	if len(found) != 1 {
		t.Fatalf("%d spans %q, want 1", len(found), name)
	}
	return found[0]
}

// attrs are the attributes of a span as text.
func attrs(s tracetest.SpanStub) map[string]string {
	found := map[string]string{}
	for _, a := range s.Attributes {
		found[string(a.Key)] = a.Value.String()
	}
	return found
}

func wantAttrs(t *testing.T, s tracetest.SpanStub, want map[string]string) {
	t.Helper()
	got := attrs(s)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("span %q: %s = %q, want %q", s.Name, key, got[key], value)
		}
	}
}

func wantStatus(t *testing.T, s tracetest.SpanStub, code codes.Code) {
	t.Helper()
	if s.Status.Code != code {
		t.Errorf("span %q: status %v %q, want %v", s.Name, s.Status.Code, s.Status.Description, code)
	}
}

func wantChild(t *testing.T, child, parent tracetest.SpanStub) {
	t.Helper()
	if child.Parent.SpanID() != parent.SpanContext.SpanID() || child.Parent.TraceID() != parent.SpanContext.TraceID() {
		t.Errorf("span %q is no child of %q", child.Name, parent.Name)
	}
}

func TestCase_O5_GuardSpansAreChildrenOfTheCallersSpanAndParentsOfTheActions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	op := l.op(t, guard.NewMemoryStore())
	ctx, outer := l.tracer().Start(t.Context(), "activity")
	_, err := op.Do(ctx, "order-1", func(ctx context.Context) (string, error) {
		_, span := l.tracer().Start(ctx, "http post")
		span.End()
		return "done", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	outer.End()
	call := l.one(t, spanCall)
	wantChild(t, call, l.one(t, "activity"))
	for _, name := range []string{telemetry.SpanReserve, "http post", telemetry.SpanReplace} {
		wantChild(t, l.one(t, name), call)
	}
	if call.SpanKind != trace.SpanKindInternal {
		t.Errorf("kind %v, want internal", call.SpanKind)
	}
	if call.InstrumentationScope.Name != telemetry.ScopeName {
		t.Errorf("scope %q, want %q", call.InstrumentationScope.Name, telemetry.ScopeName)
	}
}

func TestCase_O5_WithoutAParentTheGuardSpanIsARoot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if _, err := l.op(t, guard.NewMemoryStore()).Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	if call := l.one(t, spanCall); call.Parent.IsValid() {
		t.Errorf("the span has the parent %v", call.Parent)
	}
}

func TestSpans_AnExecutedCallTellsWhatItDid(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	result, err := l.op(t, guard.NewMemoryStore()).DoResult(t.Context(), "order-1", returns("done"))
	if err != nil {
		t.Fatal(err)
	}
	call := l.one(t, spanCall)
	wantStatus(t, call, codes.Unset)
	wantAttrs(t, call, map[string]string{
		telemetry.AttrOperation: opName,
		telemetry.AttrStore:     "memory",
		telemetry.AttrLease:     "30",
		telemetry.AttrKeyHash:   guard.KeyHash(guard.Key{Operation: opName, Name: "order-1"}),
		telemetry.AttrOutcome:   "executed",
		telemetry.AttrFence:     strconv.FormatInt(result.Fence, 10),
		telemetry.AttrAttempt:   "1",
		telemetry.AttrErrorType: "",
	})
	wantAttrs(t, l.one(t, telemetry.SpanReserve), map[string]string{telemetry.AttrPhaseResult: "acquired"})
	wantAttrs(t, l.one(t, telemetry.SpanReplace), map[string]string{telemetry.AttrPhaseResult: "stored"})
}

func TestSpans_AnUnsampledCallMakesNoSpansButKeepsItsTraceInTheRecord(t *testing.T) {
	t.Parallel()
	l := newLab(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	store := guard.NewMemoryStore()
	if _, err := l.op(t, store).Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	if spans := l.spans.GetSpans(); len(spans) != 0 {
		t.Errorf("%d spans, want none", len(spans))
	}
	loaded, err := store.Load(t.Context(), guard.LoadRequest{Key: guard.Key{Operation: opName, Name: "order-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if tp := loaded.Record.Owner.TraceParent; !strings.HasPrefix(tp, "00-") || !strings.HasSuffix(tp, "-00") {
		t.Errorf("the record's trace context is %q, want an unsampled one", tp)
	}
}

func TestSpans_WithoutAProviderTheCallersTraceGoesIntoTheRecord(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	tel, err := telemetry.New(telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := guard.NewMemoryStore()
	op := (&lab{tel: tel}).op(t, store)
	ctx, span := l.tracer().Start(t.Context(), "activity")
	result, err := op.DoResult(ctx, "order-1", returns("done"))
	if err != nil {
		t.Fatal(err)
	}
	span.End()
	if !strings.Contains(result.TraceParent, span.SpanContext().SpanID().String()) {
		t.Errorf("trace context %q, want the span of the caller", result.TraceParent)
	}
	if spans := l.spans.GetSpans(); len(spans) != 1 {
		t.Errorf("%d spans, want the caller's only", len(spans))
	}
}

// withoutCalls is a sampler that drops the spans of calls and nothing else.
type withoutCalls struct{ sdktrace.Sampler }

func (s withoutCalls) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Name == spanCall {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	return s.Sampler.ShouldSample(p)
}

func TestSpans_ASamplerThatDropsTheCallGetsNoOrphansOfIt(t *testing.T) {
	t.Parallel()
	l := newLab(t, sdktrace.WithSampler(withoutCalls{sdktrace.AlwaysSample()}))
	if _, err := l.op(t, guard.NewMemoryStore()).Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.spans.GetSpans() {
		t.Errorf("span %q without its call", s.Name)
	}
}

func TestSpans_TwoPhasesOfAKindAtOnceAreTwoSpans(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, call := l.tel.Operation(guard.OperationInfo{Name: opName}).Call(t.Context(), guard.CallInfo{})
	_, late := call.Phase(ctx, guard.PhaseRenew)
	_, next := call.Phase(ctx, guard.PhaseRenew)
	next.End(guard.PhaseEnd{Result: "ok"})
	late.End(guard.PhaseEnd{Result: "lost"})
	call.End(guard.CallEnd{Outcome: guard.OutcomeExecuted})
	spans := l.named(telemetry.SpanRenew)
	if len(spans) != 2 {
		t.Fatalf("%d spans, want 2", len(spans))
	}
	wantAttrs(t, spans[0], map[string]string{telemetry.AttrPhaseResult: "ok"})
	wantAttrs(t, spans[1], map[string]string{telemetry.AttrPhaseResult: "lost"})
}
