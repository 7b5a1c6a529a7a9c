package temporalx_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

func TestNew_SaysWhatIsWrongWithItsOptions(t *testing.T) {
	t.Parallel()
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	dc := converter.GetDefaultDataConverter()
	var typedNil *converter.CompositeDataConverter
	tests := map[string]struct {
		guard   *guard.Guard
		options temporalx.Options
		want    []string
	}{
		"no guard, no converter": {
			want: []string{"guard is nil", "converter.GetDefaultDataConverter()"},
		},
		"a typed nil converter": {
			guard: g, options: temporalx.Options{DataConverter: typedNil},
			want: []string{"data converter is nil"},
		},
		"a guard that no New made": {
			guard: &guard.Guard{}, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{{Activity: "A"}}},
			want: []string{`new operation "A"`},
		},
		"an unnamed activity": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{{}}},
			want: []string{"name: it is empty"},
		},
		"two rules, a nil function": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{
				{Activity: "A"}, {Activity: "A", Key: temporalx.KeyFrom[string](nil)},
			}},
			want: []string{`activity "A" has a rule already`, "function of KeyFrom is nil"},
		},
		"options of two operations": {
			guard: g, options: temporalx.Options{DataConverter: dc, Rules: []temporalx.Rule{
				{Activity: "A", Options: []guard.OperationOption{guard.WithLease(-time.Second)}},
				{Activity: "B", Options: []guard.OperationOption{nil}},
			}},
			want: []string{`"A"`, "lease -1s", `"B"`, "option 0 is nil"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, err := temporalx.New(tt.guard, tt.options)
			if err == nil || in != nil {
				t.Fatalf("interceptor %v, error %v, want an error alone", in, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q: nothing about %q", err, want)
				}
			}
		})
	}
}

// madeOperations counts the operations that are made.
type madeOperations struct {
	guard.Observer
	n atomic.Int32
}

func (m *madeOperations) Operation(guard.OperationInfo) guard.OperationObserver {
	m.n.Add(1)
	return nil
}

func TestOperation_IsMadeOncePerActivityTypeByManyCalls(t *testing.T) {
	t.Parallel()
	made := &madeOperations{}
	in := guarded(t, setup{options: []guard.GuardOption{guard.WithObserver(made)}})
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			var suite testsuite.WorkflowTestSuite
			env := testEnv(&suite, in)
			register(env, "Charge", func(context.Context) error { return nil })
			register(env, "Refund", func(context.Context) error { return nil })
			for _, name := range []string{"Charge", "Refund"} {
				if _, err := env.ExecuteActivity(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calls.Wait()
	if n := made.n.Load(); n != 2 {
		t.Errorf("%d operations, want 2", n)
	}
}
