package temporalx_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/temporalx"
)

// decline is what a provider says of a card that it does not charge.
type decline struct {
	Code  string
	Limit int64
}

var cardDeclined = decline{Code: "limit-of-the-card", Limit: above53}

// declinedError is an application error with all that one can have.
func declinedError() error {
	return temporal.NewApplicationErrorWithOptions("the card of J. Doe was declined", "CardDeclined",
		temporal.ApplicationErrorOptions{
			NonRetryable: true, Details: []any{cardDeclined}, NextRetryDelay: 7 * time.Second,
			Category: temporal.ApplicationErrorCategoryBenign,
			Cause:    temporal.NewApplicationError("402 from the provider", "Status"),
		})
}

// redisStore is a store on the real server, with a prefix of its own.
func redisStore(t *testing.T) *redisx.Store {
	t.Helper()
	store, _ := redisStoreAt(t)
	return store
}

func redisStoreAt(t *testing.T) (store *redisx.Store, raw func() []byte) {
	t.Helper()
	rdb, prefix := realtest.SharedRedis(t).Client(t), "temporalx-"+rand.Text()
	store, err := redisx.New(rdb, redisx.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return store, func() []byte { return onlyRecord(t, rdb, prefix) }
}

// onlyRecord returns what Redis has under the one key with the prefix.
func onlyRecord(t *testing.T, rdb *redis.Client, prefix string) []byte {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), prefix+"*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, error %v, want one", keys, err)
	}
	raw, err := rdb.Get(t.Context(), keys[0]).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// declines runs a declined charge in two workflows, and returns what the store has,
// and what Temporal has of each of them.
func declines(t *testing.T, s setup) (raw []byte, failures []*failure.Failure) {
	t.Helper()
	store, record := redisStoreAt(t)
	var done effects
	s.store, s.rules = store, payment(nil, guard.AtMostOnce(), guard.OnFailure(temporalx.RememberNonRetryable))
	b := newBench(t, s)
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) {
		return done.charge(o), declinedError()
	})
	b.Worker.RegisterWorkflow(chargeAndTell)
	b.start()
	want := ending{
		Type: "CardDeclined", Message: "the card of J. Doe was declined", NonRetryable: true, Delay: 7 * time.Second,
		Category: temporal.ApplicationErrorCategoryBenign, Decline: cardDeclined,
		Cause: "402 from the provider (type: Status, retryable: true)",
	}
	for _, workflow := range []string{"the first workflow", "the second"} {
		run := b.run(chargeAndTell, Order{ID: "o-1"}, 10*time.Second)
		if got := get[ending](t, run); got != want {
			t.Errorf("%s got\n%+v, want\n%+v", workflow, got, want)
		}
		failures = append(failures, b.activityFailure(run))
	}
	done.want(t, 1)
	if replay := b.seen.all()[1].err; !isApplicationError(replay) {
		t.Errorf("the replay is %#v, want the application error itself", replay)
	}
	return record(), failures
}

func isApplicationError(err error) bool {
	_, ok := err.(*temporal.ApplicationError) //nolint:errorlint // the SDK looks at the outermost
	return ok
}

// activityFailure returns the failure of the workflow's activity in its history.
func (b *bench) activityFailure(run client.WorkflowRun) *failure.Failure {
	b.t.Helper()
	history := b.client.GetWorkflowHistory(b.t.Context(), run.GetID(), run.GetRunID(), false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		if err != nil {
			b.t.Fatal(err)
		}
		if failed := event.GetActivityTaskFailedEventAttributes(); failed != nil {
			return failed.GetFailure()
		}
	}
	b.t.Fatal("no activity failed")
	return nil
}

// secrets are what the declined error tells.
func secrets() []string {
	return []string{cardDeclined.Code, "9007199254740993", "J. Doe", "402 from the provider", "CardDeclined"}
}

func TestRemember_ADeclinedCardIsTheSameErrorInTheNextWorkflow(t *testing.T) {
	t.Parallel()
	raw, failures := declines(t, setup{})
	if !proto.Equal(failures[0], failures[1]) {
		t.Errorf("Temporal has\n%v, and of the replay\n%v", failures[0], failures[1])
	}
	if !bytes.Contains(raw, []byte(cardDeclined.Code)) {
		t.Errorf("not encrypted, and still not in the store: %q", raw)
	}
}

func TestRemember_WhatIsEncryptedIsNowhereInPlainText(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ encodes, forgotten bool }{
		"a data converter alone":             {},
		"a failure converter":                {encodes: true},
		"a failure converter that is unsaid": {encodes: true, forgotten: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup{converter: encrypting(t), forgotten: test.forgotten}
			if test.encodes {
				s.failures = encodingMessages(s.converter)
			}
			raw, failures := declines(t, s)
			for _, secret := range secrets() {
				if bytes.Contains(raw, []byte(secret)) {
					t.Errorf("Redis has %q in plain text: %q", secret, raw)
				}
				for _, f := range failures {
					// The type is never encoded, and without a converter of its own the client
					// encodes nothing.
					if test.encodes && secret != "CardDeclined" && strings.Contains(f.String(), secret) {
						t.Errorf("Temporal has %q in plain text: %v", secret, f)
					}
				}
			}
		})
	}
}

func encodingMessages(data converter.DataConverter) converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: data, EncodeCommonAttributes: true,
	})
}

func TestHold_OfAnAmbiguousErrorByThePolicy(t *testing.T) {
	t.Parallel()
	errReset := errors.New("reset after the request was sent")
	var done effects
	// No protection but the policy: a crash would release.
	rules := chargeByOrder(guard.OnFailure(func(err error, _ bool) guard.Disposition {
		if errors.Is(err, errReset) {
			return guard.Hold
		}
		return guard.Undecided
	}))
	b := newBench(t, setup{store: redisStore(t), rules: rules})
	b.activity("Charge", func(_ context.Context, o Order) (Receipt, error) {
		if done.charge(o); done.n.Load() == 1 {
			return Receipt{}, errors.New("refused: nothing was sent") // undecided, and so released
		}
		return Receipt{}, errReset
	})
	b.Worker.RegisterWorkflow(chargeAndTell)
	b.start()
	for range 2 {
		got := get[ending](t, b.run(chargeAndTell, Order{ID: "o-1"}, 10*time.Second))
		if got.Type != temporalx.TypeOutcomeUnknown || !got.NonRetryable {
			t.Errorf("the workflow got %+v, want a final %s", got, temporalx.TypeOutcomeUnknown)
		}
	}
	done.want(t, 2)
}

func TestRememberNonRetryable_KnowsNothingElse(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]guard.Disposition{
		declinedError(): guard.Remember,
		temporal.NewNonRetryableApplicationError("no", "No", nil): guard.Remember,
		temporal.NewApplicationError("later", "Later"):            guard.Undecided,
		fmt.Errorf("wrapped: %w", declinedError()):                guard.Undecided, // Temporal retries it
		temporal.NewCanceledError():                               guard.Undecided,
		context.DeadlineExceeded:                                  guard.Undecided,
	} {
		for _, dispatched := range []bool{true, false} {
			if got := temporalx.RememberNonRetryable(err, dispatched); got != want {
				t.Errorf("%v: %q, want %q", err, got, want)
			}
		}
	}
}
