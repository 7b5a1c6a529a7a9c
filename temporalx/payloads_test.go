package temporalx_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// wantEncodings are those of the SDK's converter for results of all kinds.
func wantEncodings() map[string]string {
	return map[string]string{
		"struct": converter.MetadataEncodingJSON, "int64": converter.MetadataEncodingJSON,
		"bytes": converter.MetadataEncodingBinary, "protobuf": converter.MetadataEncodingProtoJSON,
		"nil pointer": converter.MetadataEncodingNil, "nil bytes": converter.MetadataEncodingBinary,
		"payloads": converter.MetadataEncodingJSON,
	}
}

func TestReplay_KeepsTheEncodingUnderEveryCodec(t *testing.T) {
	t.Parallel()
	binary := converter.NewCompositeDataConverter(converter.NewNilPayloadConverter(),
		converter.NewByteSlicePayloadConverter(), converter.NewProtoPayloadConverter(), converter.NewJSONPayloadConverter())
	zlib := converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true})
	for name, data := range map[string]converter.DataConverter{
		"encrypted":              encrypting(t),
		"compressed, encrypted":  converter.NewCodecDataConverter(encrypting(t), zlib),
		"protobuf in its binary": binary,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testReplays(t, data)
		})
	}
}

func TestReplay_HasTheEncodingThatTheConverterChose(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	for name, f := range results() {
		b.activity(name, f)
	}
	b.Worker.RegisterWorkflow(callByName)
	b.start()
	for name, want := range wantEncodings() {
		result := b.activityResult(t, name)
		if got := string(result.GetPayloads()[0].GetMetadata()[converter.MetadataEncoding]); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// bigActivity returns so many bytes that do not compress, always the same.
func bigActivity(done *effects, n int) func(context.Context, Order) ([]byte, error) {
	return func(_ context.Context, o Order) ([]byte, error) {
		done.charge(o)
		data := make([]byte, n)
		random := rand.NewChaCha8([32]byte{1})
		_, _ = random.Read(data)
		return data, nil
	}
}

func TestLargeResult_IsStoredUpToTheLimitAndReturnedBeyond(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for name, test := range map[string]struct {
		size  int
		rules []temporalx.Rule
		want  int32
	}{
		"under the limit":               {limit - 1000, chargeByOrder(), 1},
		"over it":                       {limit, chargeByOrder(), 2},
		"over the default, with option": {limit, chargeByOrder(guard.WithMaxResultBytes(2 * limit)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			b := newBench(t, setup{store: redisStore(t), rules: test.rules})
			b.activity("Charge", bigActivity(&done, test.size))
			b.Worker.RegisterWorkflow(callByName)
			b.start()
			first, second := b.activityResult(t, "Charge"), b.activityResult(t, "Charge")
			got := first.GetPayloads()[0].GetData()
			if len(got) != test.size || !bytes.Equal(got, second.GetPayloads()[0].GetData()) {
				t.Errorf("%d bytes and %d, or not the same, want %d twice", len(got), len(second.GetPayloads()[0].GetData()), test.size)
			}
			done.want(t, test.want)
		})
	}
}

func TestLargeResult_OverTheLimitIsHeldWhereItMustNotHappenTwice(t *testing.T) {
	t.Parallel()
	var done effects
	b := newBench(t, setup{rules: payment(nil, guard.AtMostOnce(), guard.WithMaxResultBytes(1000))})
	b.activity("Charge", bigActivity(&done, 2000))
	b.Worker.RegisterWorkflow(callByName)
	b.start()
	if err := b.run(callByName, "Charge").Get(t.Context(), nil); err != nil {
		t.Error(err)
	}
	wantError(t, b.run(callByName, "Charge"), temporalx.TypeOutcomeUnknown, true)
	done.want(t, 1)
}

// faulty is a data converter that fails so many times in each direction, at receipts or
// what was stored of them.
type faulty struct {
	converter.DataConverter
	encode, decode atomic.Int32
}

var errConverter = errors.New("the codec server is down")

func (f *faulty) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	if len(values) == 1 && f.encode.Add(-1) >= 0 {
		return nil, errConverter
	}
	return f.DataConverter.ToPayloads(values...)
}

func (f *faulty) FromPayloads(payloads *commonpb.Payloads, ptrs ...any) error {
	if f.decode.Add(-1) >= 0 {
		return errConverter
	}
	return f.DataConverter.FromPayloads(payloads, ptrs...)
}

func TestConverter_ThatFailsToEncodeAResultLeavesNothingToStore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rules []temporalx.Rule
		want  int32
		again error
	}{
		"by default":   {chargeByOrder(), 2, nil},
		"at most once": {payment(nil, guard.AtMostOnce()), 1, guard.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var done effects
			var suite testsuite.WorkflowTestSuite
			seen, data := &attempts{}, &faulty{DataConverter: converter.GetDefaultDataConverter()}
			env := testEnv(&suite, seen, guarded(t, setup{rules: test.rules, converter: data}))
			register(env, "Charge", func(_ context.Context, o Order) (Receipt, error) {
				data.encode.Store(1)
				return done.charge(o), nil
			})
			for range 2 {
				_, _ = env.ExecuteActivity("Charge", Order{ID: "o-1"})
			}
			all := seen.all()
			if all[0].err != nil || all[0].value != (Receipt{Charge: "charge-1"}) {
				t.Errorf("the first: %v, error %v, want what the activity returned", all[0].value, all[0].err)
			}
			if !errors.Is(all[1].err, test.again) {
				t.Errorf("the second: %v, want %v", all[1].err, test.again)
			}
			done.want(t, test.want)
		})
	}
}

func TestConverter_ThatFailsToDecodeAResultIsRetriedUntilItDoes(t *testing.T) {
	t.Parallel()
	var done effects
	data := &faulty{DataConverter: converter.GetDefaultDataConverter()}
	in := guarded(t, setup{rules: chargeByOrder(), converter: data})
	var suite testsuite.WorkflowTestSuite
	seen := &attempts{}
	env := testEnv(&suite, seen, in)
	register(env, "Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	for call, failures := range []int32{0, 1, 2, 0} {
		data.decode.Store(failures)
		_, _ = env.ExecuteActivity("Charge", Order{ID: "o-1"})
		err := seen.all()[call].err
		var app *temporal.ApplicationError
		switch {
		case failures == 0 && err != nil:
			t.Errorf("call %d: %v", call, err)
		case failures > 0 && err != nil && (!errors.As(err, &app) || app.Type() != temporalx.TypeStorage ||
			app.NonRetryable() || !strings.Contains(err.Error(), errConverter.Error())):
			t.Errorf("call %d: %v, want a retryable %s", call, err, temporalx.TypeStorage)
		}
	}
	done.want(t, 1)
}

func TestConverter_ThatFailsOnTheServerForAWhileCostsOnlyAttempts(t *testing.T) {
	t.Parallel()
	var done effects
	data := &faulty{DataConverter: converter.GetDefaultDataConverter()}
	b := newBench(t, setup{rules: chargeByOrder(), guards: data})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) { return done.charge(o), nil })
	b.Worker.RegisterWorkflow(chargeOnce)
	b.start()
	get[Receipt](t, b.run(chargeOnce, Order{ID: "o-1"}))
	data.decode.Store(2)
	if got := get[Receipt](t, b.run(chargeOnce, Order{ID: "o-1"})); got.Charge != "charge-1" {
		t.Errorf("got %+v", got)
	}
	done.want(t, 1)
	if n := len(b.seen.all()); n < 3 {
		t.Errorf("%d attempts, want one that failed", n)
	}
}

func TestInterceptor_TwiceOnOneWorkerIsANestedCall(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	seen, in := &attempts{}, guarded(t, setup{})
	env := testEnv(&suite, seen, in, in)
	register(env, "Charge", func(context.Context) error { t.Error("the activity ran"); return nil })
	_, _ = env.ExecuteActivity("Charge")
	var app *temporal.ApplicationError
	if err := seen.all()[0].err; !errors.As(err, &app) || app.Type() != temporalx.TypeNestedCall {
		t.Errorf("error %v, want %s", err, temporalx.TypeNestedCall)
	}
}
