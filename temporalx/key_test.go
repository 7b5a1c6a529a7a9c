package temporalx

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/onceguard/onceguard/guard"
)

// execution is what the default key is made of.
type execution struct {
	namespace, workflow, run, id, name string
	local                              bool
}

func (e execution) key(t *testing.T) string {
	t.Helper()
	key, err := DefaultKey().key(activityCall{info: activity.Info{
		Namespace:         e.namespace,
		WorkflowExecution: workflow.Execution{ID: e.workflow, RunID: e.run},
		ActivityID:        e.id,
		ActivityType:      activity.Type{Name: e.name},
		IsLocalActivity:   e.local,
		ScheduledTime:     time.Date(2026, 11, 30, 12, 0, 0, 5000, time.UTC),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestDefaultKey_IsReadableAndHasEveryPart(t *testing.T) {
	t.Parallel()
	plain := execution{namespace: "shop", workflow: "order/4711", run: "r-1", id: "5", name: "ChargeCard"}
	local := plain
	local.local = true
	long := plain
	long.workflow = strings.Repeat("w", 256)
	tests := map[string]struct {
		execution execution
		want      string
	}{
		"a workflow's":       {plain, "shop/order%2F4711/r-1/5/ChargeCard/2026-11-30T12:00:00.000005Z"},
		"local":              {local, "shop/order%2F4711/r-1/5/ChargeCard/local"},
		"long":               {long, "sha256/"},
		"control, non-ASCII": {execution{"n\x00", "w\n", "r%", "é", "t\u0085", false}, "n%00/w%0A/r%25/%C3%A9/t%C2%85"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.execution.key(t)
			if wantWhole := name == "a workflow's" || name == "local"; !strings.HasPrefix(got, tt.want) || wantWhole && got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestCase_T13_AStandaloneActivityHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, run := range []string{"run-1", "run-2"} {
		key, err := DefaultKey().key(activityCall{info: activity.Info{
			Namespace: "shop", ActivityID: "charge", ActivityRunID: run, ActivityType: activity.Type{Name: "Charge"},
		}})
		if want := "shop//" + run + "/charge/Charge/"; err != nil || !strings.HasPrefix(key, want) {
			t.Errorf("%q, error %v, want it to begin with %q", key, err, want)
		}
		seen[key] = true
	}
	if len(seen) != 2 {
		t.Error("two standalone activities share a key")
	}
	if key, err := DefaultKey().key(activityCall{info: activity.Info{ActivityID: "charge"}}); !errors.Is(err, guard.ErrInvalidKey) {
		t.Errorf("key %q, error %v of an activity without a run, want an error", key, err)
	}
}

func FuzzDefaultKey(f *testing.F) {
	f.Add("n", "w", "r", "1", "T", false, "n", "w/r", "", "1", "T", true)
	f.Add("n", "w", "r", "1/local", "T", false, "n", "w", "r", "1", "local/T", true)
	f.Add("n", "w%2F", "r", "1", "T", false, "n", "w/", "r", "1", "T", false)
	f.Add("n", strings.Repeat("w", 300), "r", "1", "T", false, "sha256", "a", "r", "1", "T", false)
	f.Add("\x00", "\u0085", "\xff", "é", "😀", false, "", "", "r", "", "", true)
	f.Fuzz(func(t *testing.T, n1, w1, r1, i1, t1 string, l1 bool, n2, w2, r2, i2, t2 string, l2 bool) {
		a, b := execution{n1, w1, r1, i1, t1, l1}, execution{n2, w2, r2, i2, t2, l2}
		for _, e := range []*execution{&a, &b} {
			if e.workflow == "" {
				e.workflow = "w" // else it is a standalone activity
			}
			if e.run == "" {
				e.run = "r"
			}
		}
		if (a.key(t) == b.key(t)) != (a == b) {
			t.Errorf("%q of %+v, %q of %+v", a.key(t), a, b.key(t), b)
		}
		wantValid(t, a.key(t))
	})
}

// wantValid asks a guard whether it takes the key.
func wantValid(t *testing.T, key string) {
	t.Helper()
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	op, err := guard.NewOperation[int](g, "op")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := op.Do(t.Context(), key, func(context.Context) (int, error) { return 1, nil }); err != nil {
		t.Errorf("key %q: %v", key, err)
	}
	if !utf8.ValidString(key) {
		t.Errorf("key %q is not UTF-8", key)
	}
}

type order struct{ ID string }

func TestKeyFrom_TakesTheArgumentAsTheActivityDoes(t *testing.T) {
	t.Parallel()
	byValue := KeyFrom(func(o order) (string, error) { return o.ID, nil })
	byPointer := KeyFrom(func(o *order) (string, error) {
		if o == nil {
			return "none", nil
		}
		return o.ID, nil
	})
	byAny := KeyFrom(func(v any) (string, error) {
		if v == nil {
			return "none", nil
		}
		return v.(order).ID, nil
	})
	dynamic := func(v any) converter.EncodedValues { return encodedValues{t, v} }
	tests := map[string]struct {
		key  KeyFunc
		args []any
		want string
		err  string
	}{
		"a value":               {key: byValue, args: []any{order{"o-1"}, "more"}, want: "o-1"},
		"a pointer":             {key: byPointer, args: []any{&order{"o-1"}}, want: "o-1"},
		"a nil pointer":         {key: byPointer, args: []any{nil}, want: "none"},
		"an interface":          {key: byAny, args: []any{order{"o-1"}}, want: "o-1"},
		"a nil interface":       {key: byAny, args: []any{nil}, want: "none"},
		"a dynamic activity":    {key: byValue, args: []any{dynamic(order{"o-1"})}, want: "o-1"},
		"a value for a pointer": {key: byPointer, args: []any{order{}}, err: "type *temporalx.order, but the activity has temporalx.order"},
		"a nil for a value":     {key: byValue, args: []any{nil}, err: "the activity has <nil>"},
		"no argument":           {key: byValue, err: "there is none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.key.key(activityCall{args: tt.args})
			if tt.err != "" {
				if !errors.Is(err, guard.ErrInvalidKey) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("%q, error %v, want %q", got, err, tt.want)
			}
		})
	}
}

// encodedValues is the argument of a dynamic activity.
type encodedValues struct {
	t *testing.T
	v any
}

func (e encodedValues) HasValues() bool { return true }

func (e encodedValues) Get(ptrs ...any) error {
	return converter.GetDefaultDataConverter().FromPayloads(e.Payloads(), ptrs...)
}

func (e encodedValues) Payloads() *commonpb.Payloads {
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(e.v)
	if err != nil {
		e.t.Fatal(err)
	}
	return payloads
}

func TestInput_ShowsWhatJSONWouldHide(t *testing.T) {
	t.Parallel()
	data := converter.GetDefaultDataConverter()
	raw := func(v any) converter.RawValue {
		payload, err := data.ToPayload(v)
		if err != nil {
			t.Fatal(err)
		}
		return converter.NewRawValue(payload)
	}
	for name, pair := range map[string][2]any{
		"protobuf":        {hiddenFields("a"), hiddenFields("b")},
		"raw values":      {raw("a"), raw("b")},
		"dynamic":         {encodedValues{t, "a"}, encodedValues{t, "b"}},
		"anything else":   {order{"a"}, order{"b"}},
		"raw and encoded": {raw(1), encodedValues{t, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !sameInput(t, data, pair[0], pair[0]) {
				t.Error("one input is not the same as itself")
			}
			if sameInput(t, data, pair[0], pair[1]) {
				t.Error("two inputs are the same")
			}
		})
	}
}

// hiddenFields is a protobuf message of which encoding/json sees nothing, as of
// those that are generated with the opaque API.
func hiddenFields(id string) proto.Message {
	fields := (&commonpb.WorkflowExecution{}).ProtoReflect().Descriptor()
	message := dynamicpb.NewMessage(fields)
	message.Set(fields.Fields().ByName("workflow_id"), protoreflect.ValueOfString(id))
	return message
}

// sameInput asks a guard.
func sameInput(t *testing.T, data converter.DataConverter, first, second any) bool {
	t.Helper()
	g, err := guard.New(guard.NewMemoryStore())
	if err != nil {
		t.Fatal(err)
	}
	op, err := guard.NewOperation[int](g, "op")
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range []any{first, second} {
		input, err := comparableArgs(data, []any{arg})
		if err != nil {
			t.Fatal(err)
		}
		_, err = op.Do(t.Context(), "key", func(context.Context) (int, error) { return 1, nil }, guard.WithInput(input))
		if errors.Is(err, guard.ErrMismatch) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return true
}

func TestPlan_ComparesArgumentsOfBusinessKeysAndLocalActivities(t *testing.T) {
	t.Parallel()
	data := converter.GetDefaultDataConverter()
	info := activity.Info{WorkflowExecution: workflow.Execution{ID: "w", RunID: "r"}}
	local := info
	local.IsLocalActivity = true
	business := KeyFrom(func(o order) (string, error) { return o.ID, nil })
	for name, tt := range map[string]struct {
		key  KeyFunc
		info activity.Info
		want int
	}{
		"default": {DefaultKey(), info, 0}, "default, local": {DefaultKey(), local, 1}, "business": {business, info, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, options, err := (&guarded{key: tt.key}).plan(tt.info, []any{order{"o-1"}}, "", "", data)
			if err != nil || len(options) != tt.want {
				t.Errorf("%d options, error %v, want %d", len(options), err, tt.want)
			}
		})
	}
}

func TestWorkflowKey_IsOfTheWorkflowAndNotOfItsRun(t *testing.T) {
	t.Parallel()
	info := activity.Info{
		Namespace: "shop", WorkflowExecution: workflow.Execution{ID: "order/4711", RunID: "r-1"},
		ActivityID: "the charge", ActivityType: activity.Type{Name: "Charge"},
	}
	local, standalone, numbered := info, info, info
	local.IsLocalActivity, local.ActivityID = true, "1"
	standalone.WorkflowExecution, standalone.ActivityRunID = workflow.Execution{}, "r-1"
	numbered.ActivityID = "17"
	for name, tt := range map[string]struct {
		info activity.Info
		want string // "": an error
	}{
		"an activity's": {info, "shop/order%2F4711/the%20charge/Charge"}, "local": {local, ""},
		"standalone": {standalone, ""}, "numbered": {numbered, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, err := WorkflowKey().key(activityCall{info: tt.info})
			if key != tt.want || (tt.want == "") != errors.Is(err, guard.ErrInvalidKey) {
				t.Errorf("%q, error %v, want %q", key, err, tt.want)
			}
		})
	}
}
