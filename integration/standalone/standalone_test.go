package standalone

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/temporalx"
)

func TestMain(m *testing.M) { realtest.Main(m) }

// Order is what the activity charges.
type Order struct{ ID string }

func orderID(o Order) (string, error) { return o.ID, nil }

// lab is a worker with a guarded activity "Charge".
type lab struct {
	t      *testing.T
	client client.Client
	queue  string
	mu     sync.Mutex
	keys   []string // of the runs of the activity
	fails  int      // so many attempts lose their reply, behind the guard
}

func newLab(t *testing.T, key temporalx.KeyFunc, fails int) *lab {
	t.Helper()
	if os.Getenv("ONCEGUARD_STANDALONE") != "1" {
		t.Skip("the pinned server has no standalone activities: run `make standalone`")
	}
	l := &lab{t: t, client: realtest.SharedTemporal(t).Client(), queue: t.Name(), fails: fails}
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules:         []temporalx.Rule{{Activity: "Charge", Key: key}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(l.client, l.queue, worker.Options{
		Interceptors: []interceptor.WorkerInterceptor{&losesReplies{lab: l}},
		Plugins:      []worker.Plugin{plugin},
	})
	w.RegisterActivityWithOptions(l.charge, activity.RegisterOptions{Name: "Charge"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return l
}

// charge is the activity. It notes the key that it has.
func (l *lab) charge(ctx context.Context, o Order) (string, error) {
	if info := activity.GetInfo(ctx); info.WorkflowExecution.ID != "" || info.ActivityRunID == "" {
		return "", temporal.NewNonRetryableApplicationError("not a standalone activity", "Test", nil)
	}
	key, err := temporalx.Key(ctx)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, key)
	return "paid " + o.ID, nil
}

// losesReplies is an interceptor in front of the guard: the first attempts have their effect, and
// the server gets an error.
type losesReplies struct {
	interceptor.WorkerInterceptorBase
	lab *lab
}

func (i *losesReplies) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &losesRepliesInbound{interceptor.ActivityInboundInterceptorBase{Next: next}, i.lab}
}

type losesRepliesInbound struct {
	interceptor.ActivityInboundInterceptorBase
	lab *lab
}

func (i *losesRepliesInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	value, err := i.Next.ExecuteActivity(ctx, in)
	if err == nil && int(activity.GetInfo(ctx).Attempt) <= i.lab.fails {
		return nil, errors.New("the reply is lost")
	}
	return value, err
}

// begin starts "Charge" with an activity id.
func (l *lab) begin(id, order string) client.ActivityHandle {
	l.t.Helper()
	handle, err := l.client.ExecuteActivity(l.t.Context(), client.StartActivityOptions{
		ID: id, TaskQueue: l.queue, StartToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1, MaximumAttempts: 5},
	}, "Charge", Order{ID: order})
	if err != nil {
		l.t.Fatal(err)
	}
	return handle
}

// pay wants that "Charge" succeeds, and returns its run id.
func (l *lab) pay(id, order string) (run string) {
	l.t.Helper()
	handle := l.begin(id, order)
	var got string
	if err := handle.Get(l.t.Context(), &got); err != nil || got != "paid "+order {
		l.t.Fatalf("activity %s: %q, error %v", id, got, err)
	}
	return handle.GetRunID()
}

// charged are the keys of the runs.
func (l *lab) charged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.keys...)
}

func TestCase_T13_OnARealServerEachStandaloneActivityHasADefaultKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	l := newLab(t, temporalx.DefaultKey(), 0)
	id := uuid.NewString()
	first := l.pay(id, "o-1")
	second := l.pay(id, "o-1") // the same activity id, once the first is closed
	l.pay(uuid.NewString(), "o-1")
	keys := l.charged()
	if len(keys) != 3 || keys[0] == keys[1] || keys[1] == keys[2] || first == second {
		t.Fatalf("keys %q, runs %s and %s, want three keys", keys, first, second)
	}
	for i, run := range []string{first, second} {
		if want := "default//" + run + "/" + id + "/Charge/"; !strings.HasPrefix(keys[i], want) {
			t.Errorf("key %q, want it to begin with %q", keys[i], want)
		}
	}
}

func TestCase_T13_ARetriedStandaloneActivityIsReplayed(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]temporalx.KeyFunc{
		"default key": temporalx.DefaultKey(), "business key": temporalx.KeyFrom(orderID),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, key, 2)
			l.pay(uuid.NewString(), "o-1")
			if keys := l.charged(); len(keys) != 1 {
				t.Errorf("%d charges, with keys %q, want one and two replays", len(keys), keys)
			}
		})
	}
}

func TestCase_T13_ABusinessKeyIsOneForAllStandaloneActivities(t *testing.T) {
	t.Parallel()
	l := newLab(t, temporalx.KeyFrom(orderID), 0)
	l.pay(uuid.NewString(), "o-1")
	l.pay(uuid.NewString(), "o-1")
	l.pay(uuid.NewString(), "o-2")
	if keys := l.charged(); len(keys) != 2 || keys[0] != "o-1" || keys[1] != "o-2" {
		t.Errorf("charges with keys %q, want one each", keys)
	}
}

func TestCase_T13_AWorkflowKeyFailsAStandaloneActivity(t *testing.T) {
	t.Parallel()
	l := newLab(t, temporalx.WorkflowKey(), 0)
	err := l.begin(uuid.NewString(), "o-1").Get(t.Context(), nil)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != temporalx.TypeInvalidKey || !app.NonRetryable() {
		t.Errorf("error %v, want a final %s", err, temporalx.TypeInvalidKey)
	}
	if keys := l.charged(); len(keys) != 0 {
		t.Errorf("charges with keys %q, want none", keys)
	}
}
