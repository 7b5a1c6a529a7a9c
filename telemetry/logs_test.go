package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// lines are the log lines so far.
func (l *lab) lines(t *testing.T) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for text := range strings.Lines(l.logs.String()) {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// logged returns the only line with a level and a message that contains some text.
func (l *lab) logged(t *testing.T, level, message string) map[string]any {
	t.Helper()
	var found []map[string]any
	for _, line := range l.lines(t) {
		if line["level"] == level && strings.Contains(line["msg"].(string), message) {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d lines %s %q, want 1, in\n%s", len(found), level, message, l.logs)
	}
	return found[0]
}

func wantLine(t *testing.T, line, want map[string]any) {
	t.Helper()
	for key, value := range want {
		if line[key] != value {
			t.Errorf("%q: %s = %v, want %v", line["msg"], key, line[key], value)
		}
	}
}

func TestLogs_AnExecutedCallIsSilentAboveDebugAndTellsWhoHolds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	result, err := l.op(t, guard.NewMemoryStore()).DoResult(t.Context(), "order-1", returns("done"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := l.lines(t); len(lines) != 2 {
		t.Errorf("%d lines, want acquired and ended:\n%s", len(lines), l.logs)
	}
	for _, message := range []string{"lease acquired", "lease ended"} {
		wantLine(t, l.logged(t, "DEBUG", message), map[string]any{
			telemetry.LogOperation: opName,
			telemetry.LogKeyHash:   guard.KeyHash(guard.Key{Operation: opName, Name: "order-1"}),
			telemetry.LogOwner:     "host/1",
			telemetry.LogFence:     float64(result.Fence),
			telemetry.LogTraceID:   l.one(t, spanCall).SpanContext.TraceID().String(),
		})
	}
}

func TestLogs_AHitNamesTheOwnerAndTheTraceOfTheRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	op := l.op(t, guard.NewMemoryStore())
	for range 2 {
		if _, err := op.Do(t.Context(), "order-1", returns("done")); err != nil {
			t.Fatal(err)
		}
	}
	wantLine(t, l.logged(t, "INFO", "stored result returned"), map[string]any{
		telemetry.LogHolder:        "host/1",
		telemetry.LogHolderTraceID: l.named(spanCall)[0].SpanContext.TraceID().String(),
		telemetry.LogTraceID:       l.named(spanCall)[1].SpanContext.TraceID().String(),
	})
}

func TestLogs_ACollisionIsInfoAndARefusalAWarning(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	store := guard.NewMemoryStore()
	reserved(t.Context(), t, store, otherTraceParent, time.Minute)
	_, _ = l.op(t, store, guard.OnInFlight(guard.Refuse)).Do(t.Context(), "order-1", returns("done"))
	line := l.logged(t, "INFO", "reserved by another owner")
	wantLine(t, line, map[string]any{telemetry.LogHolder: "host/2", telemetry.LogHolderTraceID: otherTrace})
	if left, _ := line[telemetry.LogLeaseLeft].(float64); left <= 0 {
		t.Errorf("lease left %v, want more than nothing", line[telemetry.LogLeaseLeft])
	}
	wantLine(t, l.logged(t, "WARN", "refused"), map[string]any{telemetry.LogOutcome: "refused"})
}

func TestLogs_ATakeoverNamesTheOwnerThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		store := guard.NewMemoryStore()
		reserved(t.Context(), t, store, otherTraceParent, time.Second)
		time.Sleep(2 * time.Second)
		if _, err := l.op(t, store).Do(t.Context(), "order-1", returns("done")); err != nil {
			t.Fatal(err)
		}
		wantLine(t, l.logged(t, "INFO", "taken over"), map[string]any{
			telemetry.LogPrevious: "host/2", telemetry.LogPreviousTraceID: otherTrace,
		})
	})
}

func TestLogs_AMismatchIsAWarning(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	op := l.op(t, guard.NewMemoryStore())
	for input := range 2 {
		_, _ = op.Do(t.Context(), "order-1", returns("done"), guard.WithInput(input))
	}
	wantLine(t, l.logged(t, "WARN", "another input"), map[string]any{telemetry.LogHolder: "host/1"})
}

func TestLogs_AStorageErrorHasItsClassAndTypeButNotItsText(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	store := newBrokenStore()
	store.fail(&guard.ClassifiedError{Class: guard.ClassAuth, Err: errors.New("NOAUTH hunter2")}, guard.PhaseReserve)
	if _, err := l.op(t, store).Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	wantLine(t, l.logged(t, "ERROR", "store call failed"), map[string]any{
		telemetry.LogPhase:     "reserve",
		telemetry.LogClass:     "auth",
		telemetry.LogErrorType: "*errors.errorString",
	})
	wantLine(t, l.logged(t, "WARN", "without a reservation"), map[string]any{telemetry.LogReason: "storage"})
	if strings.Contains(l.logs.String(), "hunter2") {
		t.Error("the text of the error is in the log")
	}
}

func TestLogs_ALeaseThatGoesAwayIsAWarningThenAnErrorThenAnErrorAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		store := newBrokenStore()
		op := l.op(t, store, guard.WithLease(3*time.Second))
		_, err := op.Do(t.Context(), "order-1", func(ctx context.Context) (string, error) {
			time.Sleep(500 * time.Millisecond)
			reserveAnew(ctx, t, store)
			time.Sleep(time.Second)
			return "done", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantLine(t, l.logged(t, "ERROR", "lease lost"), map[string]any{telemetry.LogReason: "taken"})
		l.logged(t, "ERROR", "result refused")
	})
}

// reserveAnew puts another owner's reservation where a live one is, as a store
// that has lost data allows it.
func reserveAnew(ctx context.Context, t *testing.T, store *brokenStore) {
	t.Helper()
	store.mu.Lock()
	store.Store = guard.NewMemoryStore()
	store.mu.Unlock()
	reserved(ctx, t, store.Store, otherTraceParent, time.Minute)
}

func TestLogs_AFailedRenewalIsAWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		store := newBrokenStore()
		store.fail(errors.New("down"), guard.PhaseRenew)
		op := l.op(t, store, guard.WithLease(3*time.Second))
		_, err := op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
			time.Sleep(1500 * time.Millisecond)
			return "done", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantLine(t, l.logged(t, "WARN", "renewal failed"), map[string]any{telemetry.LogPhase: "renew"})
	})
}

func TestLogs_AResultThatIsNotStoredIsAWarning(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	op := l.op(t, guard.NewMemoryStore(), guard.WithMaxResultBytes(3))
	if _, err := op.Do(t.Context(), "order-1", returns("done")); err != nil {
		t.Fatal(err)
	}
	wantLine(t, l.logged(t, "WARN", "not stored"), map[string]any{telemetry.LogReason: "too_large"})
	wantSamples(t, l.registry, map[string]string{`onceguard_unstored_results_total{reason="too_large"}`: "1"})
}
