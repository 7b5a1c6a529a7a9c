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
	for prefix, known := range map[string][]string{
		"Outcome": texts(guard.Outcomes()...),
		"Class":   texts(guard.ErrorClasses()...),
		"Phase":   append(texts(timed[:]...), texts(storagePhases()...)...),
		"Renew":   renewalResults(),
		"Reason":  append(append(unguardedReasons(), unstoredReasons()...), guard.ReasonTaken, guard.ReasonExpired),
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

func FuzzParseTraceParent_AnyTextIsNoPanicAndGivesAValidContextOrNone(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more")
	f.Fuzz(func(t *testing.T, s string) {
		if sc := parseTraceParent(s); sc.IsValid() && !strings.Contains(s, sc.TraceID().String()) {
			t.Errorf("%q gave the trace %s", s, sc.TraceID())
		}
	})
}
