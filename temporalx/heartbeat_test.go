package temporalx_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/temporalx"
)

// Attempt 1 heartbeats and fails, attempt 2 waits and heartbeats past its timeout, attempt 3 reads.
func TestCase_T15_HeartbeatDetailsSurviveAnAttemptThatWaits(t *testing.T) {
	t.Parallel()
	for name, details := range map[string][]any{
		"none": nil, "two": {map[string]int64{"batch": 1<<53 + 1}, "cursor"}, "nine": {1, 2, 3, 4, 5, 6, 7, 8, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := redisStore(t)
			b := newBench(t, setup{store: store, rules: chargeByOrder()})
			begin := make(chan struct{}, 100)
			b.seen.begin = begin
			read := make(chan []string, 1)
			b.activity("Charge", func(ctx context.Context, _ Order) (Receipt, error) {
				switch activity.GetInfo(ctx).Attempt {
				case 1:
					if details != nil {
						activity.RecordHeartbeat(ctx, details...)
					}
					return Receipt{}, temporal.NewApplicationErrorWithOptions("try again", "again",
						temporal.ApplicationErrorOptions{NextRetryDelay: time.Second})
				case 2:
					activity.RecordHeartbeat(ctx) // must not come to this: the key is occupied
					return Receipt{}, errors.New("ran")
				}
				read <- shown(ctx)
				return Receipt{}, nil
			})
			b.Worker.RegisterWorkflow(approve)
			b.start()
			run := b.run(approve, Order{ID: "o-1"}, 4*time.Second, 1500*time.Millisecond)
			<-begin
			eventually(t, "the first attempt has failed", func() bool { return len(b.seen.all()) == 1 })
			free := occupy(t, store)
			<-begin
			eventually(t, "the second attempt was refused in time", func() bool { return len(b.seen.all()) == 2 })
			if err := b.seen.all()[1].err; !errors.Is(err, guard.ErrInProgress) {
				t.Errorf("the second attempt ended with %v, want ErrInProgress after a wait", err)
			}
			free()
			get[Receipt](t, run)
			want := []string{}
			for _, d := range details {
				want = append(want, shownValue(t, d))
			}
			if got := <-read; !slices.Equal(got, want) {
				t.Errorf("the third attempt reads %q, want %q", got, want)
			}
		})
	}
}

// shown are the heartbeat details that the server has, as they are encoded.
func shown(ctx context.Context) []string {
	raw, into := make([]converter.RawValue, 16), make([]any, 16)
	for i := range raw {
		into[i] = &raw[i]
	}
	if !activity.HasHeartbeatDetails(ctx) || activity.GetHeartbeatDetails(ctx, into...) != nil {
		return []string{}
	}
	texts := []string{}
	for i := range raw {
		if raw[i].Payload() != nil {
			texts = append(texts, string(raw[i].Payload().GetData()))
		}
	}
	return texts
}

func shownValue(t *testing.T, value any) string {
	t.Helper()
	payload, err := converter.GetDefaultDataConverter().ToPayload(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(payload.GetData())
}

// heartbeats is an interceptor that sees the heartbeats of the attempts, the guard's too.
type heartbeats struct {
	interceptor.WorkerInterceptorBase
	all, dead atomic.Int32
	hold      chan struct{} // the first one hangs until it is closed, unless nil
}

type heartbeatsInbound struct {
	interceptor.ActivityInboundInterceptorBase
	seen *heartbeats
}

type heartbeatsOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	seen *heartbeats
}

func (h *heartbeats) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &heartbeatsInbound{interceptor.ActivityInboundInterceptorBase{Next: next}, h}
}

func (h *heartbeatsInbound) Init(out interceptor.ActivityOutboundInterceptor) error {
	return h.Next.Init(&heartbeatsOutbound{interceptor.ActivityOutboundInterceptorBase{Next: out}, h.seen})
}

func (h *heartbeatsOutbound) RecordHeartbeat(ctx context.Context, details ...any) {
	first := h.seen.all.Add(1) == 1
	if first && h.seen.hold != nil {
		<-h.seen.hold
	}
	if ctx.Err() != nil {
		h.seen.dead.Add(1)
	}
	h.Next.RecordHeartbeat(ctx, details...)
}

func TestCase_T9_NoHeartbeatGoesOutOnADeadContext(t *testing.T) {
	t.Parallel()
	const heartbeat = time.Second
	seen := &heartbeats{}
	o := newOccupied(t, setup{before: seen})
	o.start()
	run := o.run(approve, Order{ID: "o-1"}, time.Minute, heartbeat)
	<-o.begin
	eventually(t, "the attempt heartbeats", func() bool { return seen.all.Load() > 1 })
	if err := o.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the attempt is woken", func() bool { return len(o.seen.all()) == 1 })
	then := seen.all.Load()
	time.Sleep(2 * heartbeat)
	if now := seen.all.Load(); now != then || seen.dead.Load() != 0 {
		t.Errorf("%d heartbeats after the attempt had ended, %d on a dead context", now-then, seen.dead.Load())
	}
}

func TestCase_T9_RenewalsGoOnUntilAnActivityThatWasCanceledReturns(t *testing.T) {
	t.Parallel()
	const lease = 400 * time.Millisecond
	store, charge := redisStore(t), newGated()
	b := newBench(t, setup{store: store, rules: chargeByOrder(), options: []guard.GuardOption{guard.WithLease(lease)}})
	canceled := make(chan struct{})
	b.activity("Charge", func(ctx context.Context, order Order) (Receipt, error) {
		for ctx.Err() == nil {
			activity.RecordHeartbeat(ctx)
			time.Sleep(20 * time.Millisecond)
		}
		close(canceled)
		return charge.run(ctx, order) // which ignores it
	})
	b.Worker.RegisterWorkflow(approve)
	b.start()
	run := b.run(approve, Order{ID: "o-1"}, time.Minute, time.Second)
	eventually(t, "the key is reserved", func() bool { return len(open(t, store)) == 1 })
	if err := b.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	<-canceled
	for end := time.Now().Add(4 * lease); time.Now().Before(end); time.Sleep(lease / 8) {
		if keys := open(t, store); len(keys) != 1 || keys[0].Left == 0 {
			t.Fatalf("the reservation has run out: %+v", keys)
		}
	}
	close(charge.end)
	eventually(t, "the result is stored", func() bool { return len(open(t, store)) == 0 })
	charge.want(t, 1)
}

// open are the keys that are reserved.
func open(t *testing.T, store guard.Lister) (keys []guard.Listed) {
	t.Helper()
	for req := (guard.ListRequest{Limit: 100}); ; {
		reply, err := store.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, reply.Records...)
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return keys
		}
	}
}

// The SDK keeps back what the activity sends soon after a heartbeat of the guard, and sends it later.
func TestWaiting_AHeartbeatOfTheActivitySoonAfterItsWaitIsSent(t *testing.T) {
	t.Parallel()
	const heartbeat = 2 * time.Second
	beats, store := &heartbeats{}, redisStore(t)
	b := newBench(t, setup{store: store, rules: chargeByOrder(), before: beats})
	b.activity("Charge", func(ctx context.Context, _ Order) (Receipt, error) {
		activity.RecordHeartbeat(ctx, "mine")
		time.Sleep(heartbeat + heartbeat/2) // over the timeout of the guard's heartbeat, not of its own
		return Receipt{Charge: "charge-1"}, ctx.Err()
	})
	b.Worker.RegisterWorkflow(approve)
	free := occupy(t, store)
	b.start()
	run := b.run(approve, Order{ID: "o-1"}, time.Minute, heartbeat)
	eventually(t, "the attempt heartbeats as it waits", func() bool { return beats.all.Load() == 1 })
	free()
	get[Receipt](t, run)
	if seen := b.seen.all(); len(seen) != 1 || seen[0].err != nil {
		t.Errorf("%d attempts, the first ended with %v, want one and no error", len(seen), seen[0].err)
	}
}

// A heartbeat that comes late would replace what the activity itself has sent.
func TestWaiting_TheActivityRunsWhenTheLastHeartbeatOfItsWaitIsOver(t *testing.T) {
	t.Parallel()
	const lease = 400 * time.Millisecond
	beats, store := &heartbeats{hold: make(chan struct{})}, redisStore(t)
	b := newBench(t, setup{
		store: store, rules: chargeByOrder(), before: beats,
		options: []guard.GuardOption{guard.WithLease(lease), guard.WithWaitBound(time.Minute)},
	})
	var done effects
	b.activity("Charge", func(_ context.Context, order Order) (Receipt, error) { return done.charge(order), nil })
	b.Worker.RegisterWorkflow(approve)
	free := occupy(t, store)
	b.start()
	run := b.run(approve, Order{ID: "o-1"}, time.Minute, 1500*time.Millisecond)
	eventually(t, "the attempt heartbeats as it waits", func() bool { return beats.all.Load() == 1 })
	free()
	eventually(t, "the attempt has the key", func() bool { return len(open(t, store)) == 1 })
	for end := time.Now().Add(3 * lease); time.Now().Before(end); time.Sleep(lease / 8) {
		if keys := open(t, store); len(keys) != 1 || keys[0].Left == 0 {
			t.Fatalf("the reservation has run out: %+v", keys)
		}
	}
	done.want(t, 0)
	close(beats.hold)
	get[Receipt](t, run)
	done.want(t, 1)
}

// abandon reserves the key of order "o-1" for an owner that dispatches and is gone.
func abandon(t *testing.T, store guard.Store, lease time.Duration) {
	t.Helper()
	reply, err := store.Reserve(t.Context(), guard.ReserveRequest{
		Key: guard.Key{Operation: "Charge", Name: "o-1"}, Owner: guard.Owner{Token: strings.Repeat("0f", 16), Label: "gone"},
		Lease: lease, Retention: time.Hour, Dispatched: true, Recovers: true, HoldRetention: time.Hour,
	})
	if err != nil || !reply.Acquired {
		t.Fatalf("got %+v, %v", reply, err)
	}
}

// The hook runs in place of the activity, and may heartbeat as well.
func TestWaiting_TheRecoveryHookIsAskedWhenTheLastHeartbeatOfTheWaitIsOver(t *testing.T) {
	t.Parallel()
	beats, store := &heartbeats{hold: make(chan struct{})}, redisStore(t)
	asked := make(chan struct{}, 10)
	rule := chargeByOrder(guard.OnStorageError(guard.FailClosed))[0]
	rule.Recovery = temporalx.RecoverWith(func(context.Context, guard.Evidence) (Receipt, guard.Finding, error) {
		asked <- struct{}{}
		return Receipt{Charge: "found"}, guard.Found, nil
	})
	const lease = 5 * time.Second
	b := newBench(t, setup{
		store: store, rules: []temporalx.Rule{rule}, before: beats,
		options: []guard.GuardOption{guard.WithLease(lease), guard.WithSettleTime(0), guard.WithWaitBound(time.Minute)},
	})
	b.activity("Charge", func(context.Context, Order) (Receipt, error) { return Receipt{}, errors.New("ran") })
	b.Worker.RegisterWorkflow(approve)
	b.start()
	abandon(t, store, lease)
	run := b.run(approve, Order{ID: "o-1"}, time.Minute, 6*time.Second)
	eventually(t, "the attempt heartbeats as it waits", func() bool { return beats.all.Load() == 1 })
	eventually(t, "the attempt has the key", func() bool {
		keys := open(t, store)
		return len(keys) == 1 && keys[0].Record.Attempt == 2
	})
	select {
	case <-asked:
		t.Error("the hook was asked beside a heartbeat of the wait")
	case <-time.After(500 * time.Millisecond):
	}
	close(beats.hold)
	if got := get[Receipt](t, run); got.Charge != "found" {
		t.Errorf("got %+v, want what the hook found", got)
	}
}

// opaque is a data converter that does not know RawValue.
type opaque struct{ converter.DataConverter }

var errOpaque = errors.New("no raw values")

func (c opaque) FromPayloads(payloads *commonpb.Payloads, into ...any) error {
	for _, p := range into {
		if _, raw := p.(*converter.RawValue); raw {
			return errOpaque
		}
	}
	return c.DataConverter.FromPayloads(payloads, into...)
}

func TestWaiting_DetailsThatCannotBeSentAgainAreKeptByNotWaiting(t *testing.T) {
	t.Parallel()
	beats, store := &heartbeats{}, redisStore(t)
	b := newBench(t, setup{
		store: store, rules: chargeByOrder(), before: beats, converter: opaque{converter.GetDefaultDataConverter()},
	})
	b.activity("Charge", func(ctx context.Context, _ Order) (Receipt, error) {
		activity.RecordHeartbeat(ctx, "cursor")
		return Receipt{}, temporal.NewApplicationErrorWithOptions("try again", "again",
			temporal.ApplicationErrorOptions{NextRetryDelay: time.Second})
	})
	b.Worker.RegisterWorkflow(approve)
	b.start()
	run := b.run(approve, Order{ID: "o-1"}, 20*time.Second, 300*time.Millisecond)
	eventually(t, "the first attempt has failed", func() bool { return len(b.seen.all()) == 1 })
	occupy(t, store)
	eventually(t, "the second attempt is refused", func() bool { return len(b.seen.all()) == 2 })
	second := b.seen.all()[1]
	var app *temporal.ApplicationError
	if !errors.As(second.err, &app) || app.Type() != temporalx.TypeInProgress || app.NextRetryDelay() == 0 {
		t.Errorf("the second attempt ended with %v, want %s at once", second.err, temporalx.TypeInProgress)
	}
	if n := beats.all.Load(); n != 1 {
		t.Errorf("%d heartbeats, want that of the activity alone", n)
	}
	if err := b.client.TerminateWorkflow(t.Context(), run.GetID(), "", "the test is over"); err != nil {
		t.Error(err)
	}
}
