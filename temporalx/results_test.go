package temporalx_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/temporalx"
)

const above53 = 1<<53 + 1 // a float64 would round it

// results are what activities may return; each has an activity of its name.
func results() map[string]func(context.Context, Order) (any, error) {
	one := func(v any) func(context.Context, Order) (any, error) {
		return func(context.Context, Order) (any, error) { return v, nil }
	}
	return map[string]func(context.Context, Order) (any, error){
		"struct":      one(struct{ Amount, Exact any }{int64(above53), above53 + 0}),
		"int64":       one(int64(above53)),
		"bytes":       one([]byte{0, 255, '"'}),
		"protobuf":    one(&common.WorkflowExecution{WorkflowId: "w", RunId: "r"}),
		"nil":         one(nil),
		"nil pointer": one((*Receipt)(nil)),
		"nil bytes":   one([]byte(nil)),
		"payloads": one(&common.Payloads{Payloads: []*common.Payload{{
			Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(" 9007199254740993 "),
		}}}),
	}
}

func callByName(ctx workflow.Context, name string) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second, RetryPolicy: retries(2),
	})
	return workflow.ExecuteActivity(ctx, name, Order{ID: "o-1"}).Get(ctx, nil)
}

// testReplays runs each result in two workflows and compares what the server
// recorded.
func testReplays(t *testing.T, data converter.DataConverter) {
	t.Helper()
	var ran sync.Map
	var rules []temporalx.Rule
	for name := range results() {
		rules = append(rules, temporalx.Rule{Activity: name, Key: temporalx.KeyFrom(orderID)})
	}
	b := newBench(t, setup{converter: data, rules: rules})
	for name, f := range results() {
		b.activity(name, func(ctx context.Context, o Order) (any, error) {
			if _, again := ran.LoadOrStore(name, true); again {
				t.Errorf("%s ran twice", name)
			}
			return f(ctx, o)
		})
	}
	b.Worker.RegisterWorkflow(callByName)
	b.start()
	for name := range results() {
		t.Run(name, func(t *testing.T) {
			first, second := decoded(data, b.activityResult(t, name)), decoded(data, b.activityResult(t, name))
			if !proto.Equal(first, second) {
				t.Errorf("first run %v, replay %v", first, second)
			}
			if (len(first.GetPayloads()) == 0) != (name == "nil") {
				t.Errorf("%d payloads", len(first.GetPayloads()))
			}
		})
	}
}

// decoded undoes the codec, if there is one: what an encryption makes differs each time.
func decoded(data converter.DataConverter, encoded *common.Payloads) *common.Payloads {
	plain := &common.Payloads{}
	for _, payload := range encoded.GetPayloads() {
		var raw converter.RawValue
		if err := data.FromPayload(payload, &raw); err != nil {
			return encoded // a converter that does not know RawValues has none
		}
		plain.Payloads = append(plain.Payloads, raw.Payload())
	}
	return plain
}

// activityResult runs callByName and returns what the activity's completion
// holds in the workflow's history.
func (b *bench) activityResult(t *testing.T, name string) *common.Payloads {
	t.Helper()
	run := b.run(callByName, name)
	if err := run.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	history := b.client.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		if err != nil {
			t.Fatal(err)
		}
		if done := event.GetActivityTaskCompletedEventAttributes(); done != nil {
			return done.GetResult()
		}
	}
	t.Fatal("no activity completed")
	return nil
}

func TestReplay_IsTheSamePayload(t *testing.T) {
	t.Parallel()
	testReplays(t, converter.GetDefaultDataConverter())
}

func TestReplay_IsTheSamePayloadWithAConverterThatDoesNotKnowRawValues(t *testing.T) {
	t.Parallel()
	testReplays(t, newPlainConverter())
}

func TestReplay_IntegersAbove2To53AreExactInTheWorkflow(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{rules: append(chargeByOrder(), temporalx.Rule{
		Activity: "Any", Key: temporalx.KeyFrom(orderID),
	})})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	b.activity("Any", func(_ context.Context, o Order) (any, error) { return done.charge(o).Amount, nil })
	both := func(ctx workflow.Context, o Order) ([2]int64, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
		var receipt Receipt
		var bare int64
		if err := workflow.ExecuteActivity(ctx, "Charge", o).Get(ctx, &receipt); err != nil {
			return [2]int64{}, err
		}
		err := workflow.ExecuteActivity(ctx, "Any", o).Get(ctx, &bare)
		return [2]int64{receipt.Amount, bare}, err
	}
	b.Worker.RegisterWorkflowWithOptions(both, workflow.RegisterOptions{Name: "both"})
	b.start()
	order, want := Order{ID: "o-1", Amount: above53}, [2]int64{above53, above53}
	for _, which := range []string{"first", "replay"} {
		if got := get[[2]int64](t, b.run("both", order)); got != want {
			t.Errorf("%s: %v, want %v", which, got, want)
		}
	}
	done.want(t, 2) // one per activity
}

func TestCase_T16_AnEncryptedResultIsNowhereInPlainTextAndIsReplayed(t *testing.T) {
	t.Parallel()
	rdb := realtest.SharedRedis(t).Client(t)
	prefix := "T16-" + rand.Text()
	store, err := redisx.New(rdb, redisx.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	var done effects
	b := newBench(t, setup{store: store, rules: chargeByOrder(), converter: encrypting(t)})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	order := Order{ID: "o-1", Amount: above53}
	first, second := get[Receipt](t, b.run(chargeOnce, order)), get[Receipt](t, b.run(chargeOnce, order))
	if want := (Receipt{"charge-1", above53}); first != want || second != want {
		t.Errorf("first %+v, replay %+v, want %+v", first, second, want)
	}
	done.want(t, 1)

	keys, err := rdb.Keys(t.Context(), prefix+"*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, error %v, want one", keys, err)
	}
	raw, err := rdb.Get(t.Context(), keys[0]).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"charge-1", "9007199254740993", "Amount"} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("Redis has %q in plain text: %q", secret, raw)
		}
	}
	if !bytes.Contains(raw, []byte("binary/encrypted")) {
		t.Errorf("Redis has no payload of the data converter: %q", raw)
	}
}

func TestTenWorkflowsWithOneBusinessKeyHaveOneEffect(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{rules: chargeByOrder()})
	all := make(chan struct{})
	b.activity("Charge", func(ctx context.Context, o Order) (Receipt, error) {
		select {
		case <-all: // not before all workflows have begun
		case <-ctx.Done():
		}
		return done.charge(o), nil
	})
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	order := Order{ID: "o-1", Amount: 3}
	var runs []func() Receipt
	for range 10 {
		run := b.run(chargeOnce, order)
		runs = append(runs, func() Receipt { return get[Receipt](t, run) })
	}
	close(all)
	for _, result := range runs {
		if got, want := result(), (Receipt{"charge-1", 3}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	done.want(t, 1)
}

var _ guard.Store = (*spyStore)(nil)
