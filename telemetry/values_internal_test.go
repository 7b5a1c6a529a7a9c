package telemetry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
)

// guardConstants reads the string constants of guard whose names begin with a
// prefix, so that one that is added there cannot be forgotten here.
func guardConstants(t *testing.T, prefix string) []string {
	t.Helper()
	files, err := filepath.Glob("../guard/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, stringConstants(t, file, prefix)...)
	}
	if len(values) == 0 {
		t.Fatalf("guard has no constants %s…", prefix)
	}
	return values
}

func stringConstants(t *testing.T, file *ast.File, prefix string) []string {
	t.Helper()
	var values []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

func texts[S ~string](values ...S) []string {
	var all []string
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

func TestValues_EveryConstantOfGuardHasItsSeries(t *testing.T) {
	t.Parallel()
	timed := timedPhases()
	outsideCalls := texts(guard.PhaseErase, guard.PhaseResolve, guard.PhaseList)
	lostReasons := []string{guard.ReasonTaken, guard.ReasonExpired, guard.ReasonMaxHold} // on the span only
	for prefix, known := range map[string][]string{
		"Outcome": texts(guard.Outcomes()...),
		"Class":   texts(guard.ErrorClasses()...),
		"Phase":   slices.Concat(texts(timed[:]...), texts(storagePhases()...), outsideCalls),
		"Renew":   renewalResults(),
		"Reason":  slices.Concat(unguardedReasons(), unstoredReasons(), heldReasons(), lostReasons, []string{actionInterrupted}),
	} {
		for _, value := range guardConstants(t, prefix) {
			if !slices.Contains(known, value) {
				t.Errorf("guard's %s… %q has no series", prefix, value)
			}
		}
	}
}

func TestSpanName_EveryPhaseHasItsConstant(t *testing.T) {
	t.Parallel()
	for _, p := range timedPhases() {
		if got := spanName(p); got != "guard."+string(p) {
			t.Errorf("spanName(%q) = %q", p, got)
		}
	}
}

func TestTraceParent_WhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
	} {
		if got := formatTraceParent(parseTraceParent(s)); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := formatTraceParent(parseTraceParent("")); got != "" {
		t.Errorf("no trace context became %q", got)
	}
}

// FuzzParseTraceParent compares with OpenTelemetry's own parser, which is not used
// because it needs a carrier and a context for each record.
func FuzzParseTraceParent_ReadsWhatOpenTelemetryReads(f *testing.F) {
	const ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	for _, seed := range []string{
		"", "00-" + ids + "-01", "00-" + ids + "-00", "00-" + ids + "-01-more", "01-" + ids + "-01-more", "cc-" + ids + "-01",
		"01-" + ids + "-01more", "ff-" + ids + "-01", "0x-" + ids + "-01", "00-" + strings.ToUpper(ids) + "-01",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-" + ids + "-zz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		carrier := propagation.MapCarrier{"traceparent": s}
		theirs := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), carrier))
		ours := parseTraceParent(s)
		if !theirs.IsValid() || strings.HasPrefix(s, "00") && len(s) != traceParentLength {
			return // broken; theirs lets a dash at the end of version 00 pass
		}
		if ours.TraceID() != theirs.TraceID() || ours.SpanID() != theirs.SpanID() || ours.IsSampled() != theirs.IsSampled() {
			t.Errorf("%q: %+v, want %+v", s, ours, theirs)
		}
	})
}
