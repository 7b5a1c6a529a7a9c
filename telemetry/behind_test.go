package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

// stuckHandler blocks on lines about renewals, as a full pipe does.
type stuckHandler struct {
	slog.Handler
	free chan struct{}
}

func (h stuckHandler) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "renewal failed") {
		<-h.free
	}
	return h.Handler.Handle(ctx, r)
}

func TestLogs_AHandlerThatBlocksHoldsUpNoRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry, text := prometheus.NewRegistry(), &lockedBuffer{}
		free := make(chan struct{})
		logger := slog.New(stuckHandler{slog.NewTextHandler(text, nil), free})
		tel, err := telemetry.New(telemetry.Options{Registerer: registry, Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		store := newBrokenStore()
		g, err := guard.New(store, guard.WithObserver(tel), guard.OnInFlight(guard.Refuse))
		if err != nil {
			t.Fatal(err)
		}
		op, err := guard.NewOperation[string](g, opName)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := op.Do(t.Context(), "order-1", func(context.Context) (string, error) {
				time.Sleep(90*time.Second + time.Second)
				return "done", nil
			})
			done <- err
		}()
		store.fail(errStoreDown, guard.PhaseRenew)
		time.Sleep(11 * time.Second) // one renewal has failed, and its line blocks
		store.fail(nil, guard.PhaseRenew)
		for range 79 {
			time.Sleep(time.Second)
			if _, err := op.Do(t.Context(), "order-1", returns("twice")); !errors.Is(err, guard.ErrInProgress) {
				t.Fatalf("got %v, want the lease kept", err)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		close(free)
		synctest.Wait()
		if !strings.Contains(text.String(), "renewal failed") {
			t.Error("the line is lost")
		}
		wantSamples(t, registry, map[string]string{`onceguard_log_lines_dropped_total{}`: "0"})
	})
}

var errStoreDown = errors.New("store down")
