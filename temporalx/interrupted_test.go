package temporalx_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/telemetry"
	"github.com/onceguard/onceguard/temporalx"
)

// interrupted is a worker whose charge of order "o-1" gives up when its context is done, with what
// its guard tells.
type interrupted struct {
	*occupied
	store    *redisx.Store
	spans    *tracetest.InMemoryExporter
	registry *prometheus.Registry
	charging chan struct{}
}

func newInterrupted(t *testing.T, options worker.Options, ends func(context.Context) error) *interrupted {
	t.Helper()
	i := &interrupted{
		store: redisStore(t), spans: tracetest.NewInMemoryExporter(), registry: prometheus.NewRegistry(),
		charging: make(chan struct{}, 10),
	}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(i.spans))
	tel, err := telemetry.New(telemetry.Options{Registerer: i.registry, TracerProvider: tracers})
	if err != nil {
		t.Fatal(err)
	}
	s := setup{store: i.store, rules: chargeByOrder(), options: []guard.GuardOption{guard.WithObserver(tel), guard.WithLease(time.Minute)}}
	i.occupied = &occupied{bench: newBench(t, s)}
	options.Plugins = []worker.Plugin{newPlugin(t, s, nil)}
	options.MaxHeartbeatThrottleInterval = 100 * time.Millisecond
	i.Worker = worker.New(i.client, i.queue, options)
	i.activity("Charge", func(ctx context.Context, o Order) (Receipt, error) {
		if activity.GetInfo(ctx).Attempt > 1 {
			return i.done.charge(o), nil
		}
		i.charging <- struct{}{}
		for {
			select {
			case <-ctx.Done():
				return Receipt{}, ends(ctx)
			case <-time.After(50 * time.Millisecond):
				activity.RecordHeartbeat(ctx)
			}
		}
	})
	i.Worker.RegisterWorkflow(approve)
	if err := i.Worker.Start(); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestCase_T3_AnActivityThatGivesUpWithItsWorkerOrByAnOperatorIsReleasedAndHasNotFailed(t *testing.T) {
	t.Parallel()
	for cause, interrupt := range map[string]func(*interrupted, client.WorkflowRun) error{
		temporalx.CauseWorkerShutdown: func(i *interrupted, _ client.WorkflowRun) error { i.Worker.Stop(); return nil },
		temporalx.CausePaused:         func(i *interrupted, run client.WorkflowRun) error { return i.pause(run) },
		temporalx.CauseReset:          func(i *interrupted, run client.WorkflowRun) error { return i.reset(run) },
		temporalx.CauseCanceled: func(i *interrupted, run client.WorkflowRun) error {
			return i.client.CancelWorkflow(i.t.Context(), run.GetID(), run.GetRunID())
		},
		temporalx.CauseClosed: func(i *interrupted, run client.WorkflowRun) error {
			return i.client.TerminateWorkflow(i.t.Context(), run.GetID(), run.GetRunID(), "enough")
		},
	} {
		t.Run(cause, func(t *testing.T) {
			t.Parallel()
			i := newInterrupted(t, worker.Options{}, context.Context.Err)
			run := i.run(approve, Order{ID: "o-1"}, 30*time.Second, 10*time.Second)
			<-i.charging
			if err := interrupt(i, run); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the span of the call", func() bool { return len(i.calls()) > 0 })
			span := i.calls()[0]
			if span.Status.Code == codes.Error {
				t.Errorf("the status is %v, want none: nothing has failed", span.Status)
			}
			wantAttribute(t, span, telemetry.AttrOutcome, string(guard.OutcomeInterrupted))
			wantAttribute(t, span, telemetry.AttrErrorType, cause)
			if n := i.value(t, telemetry.MetricCalls, "failed"); n != 0 {
				t.Errorf("%v calls failed, want none", n)
			}
			loaded, err := i.store.Load(t.Context(), guard.LoadRequest{Key: guard.Key{Operation: "Charge", Name: "o-1"}})
			if err != nil || loaded.Found && loaded.Record.Status == guard.StatusPending && loaded.Record.Attempt == 1 {
				t.Errorf("the key is %+v, %v: want it released", loaded.Record, err)
			}
			if cause != temporalx.CauseWorkerShutdown {
				i.Worker.Stop()
			}
		})
	}
}

func TestInterrupted_AnActivityThatReturnsTheErrorOfACancelIsCanceledAndHasNotFailed(t *testing.T) {
	t.Parallel()
	i := newInterrupted(t, worker.Options{}, func(context.Context) error { return temporal.NewCanceledError("details") })
	defer i.Worker.Stop()
	run := i.run(approve, Order{ID: "o-1"}, 30*time.Second, 10*time.Second)
	<-i.charging
	if err := i.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()); err != nil {
		t.Fatal(err)
	}
	if err := run.Get(t.Context(), nil); !temporal.IsCanceledError(err) {
		t.Errorf("the workflow ended with %v, want a cancel", err)
	}
	wantAttribute(t, i.calls()[0], telemetry.AttrOutcome, string(guard.OutcomeInterrupted))
	wantAttribute(t, i.calls()[0], telemetry.AttrErrorType, temporalx.CauseCanceled)
}

// The renewer and what waits for the worker are gone as well: the binary looks for goroutines that
// are left when all tests have ended.
func TestCase_T2_AWorkerThatStopsWithoutGraceLeavesTheKeyFreeAndNothingRunning(t *testing.T) {
	t.Parallel()
	i := newInterrupted(t, worker.Options{}, context.Context.Err)
	i.run(approve, Order{ID: "o-1"}, 30*time.Second, 10*time.Second)
	<-i.charging
	i.Worker.Stop()
	eventually(t, "the call ends", func() bool { return i.value(t, telemetry.MetricCalls, "interrupted") == 1 })
	if n := i.value(t, telemetry.MetricLeasesHeld, ""); n != 0 {
		t.Errorf("%v leases are held", n)
	}
	// The lease is a minute: the next worker has the key long before.
	began := time.Now()
	other := newBench(t, setup{store: i.store, rules: chargeByOrder()})
	other.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return i.done.charge(o), nil })
	other.Worker.RegisterWorkflow(chargeOnce)
	other.start()
	get[Receipt](t, other.run(chargeOnce, Order{ID: "o-1"}))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the key was free after %s", took)
	}
	i.done.want(t, 1)
}

func (i *interrupted) calls() (calls tracetest.SpanStubs) {
	for _, s := range i.spans.GetSpans() {
		if s.Name == telemetry.SpanCallPrefix+"Charge" {
			calls = append(calls, s)
		}
	}
	return calls
}

func wantAttribute(t *testing.T, span tracetest.SpanStub, key, want string) {
	t.Helper()
	for _, a := range span.Attributes {
		if a.Key == attribute.Key(key) {
			if got := a.Value.AsString(); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
			return
		}
	}
	t.Errorf("the span has no %s, want %q", key, want)
}

// value is the sum of the series of a metric that have the label value, if it is not empty.
func (i *interrupted) value(t *testing.T, metric, label string) (sum float64) {
	t.Helper()
	families, err := i.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			has := label == ""
			for _, l := range m.GetLabel() {
				has = has || l.GetValue() == label
			}
			if f.GetName() == metric && has {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
