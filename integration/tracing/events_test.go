package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
	"github.com/onceguard/onceguard/temporalx"
)

// short is a start-to-close timeout that attempts miss.
const short = time.Second

func TestReplay_IsARunActivityWithALinkToTheRunThatHadTheEffect(t *testing.T) {
	t.Parallel()
	l := newLab(t, setup{between: []interceptor.WorkerInterceptor{&losesReplies{}}})
	l.start(l.pay)
	l.end(l.begin(t.Context(), 1, time.Minute))
	l.wantOneCharge()
	l.want(`
		StartWorkflow:charge
		  RunWorkflow:charge
		    StartActivity:Charge
		      RunActivity:Charge
		        guard Charge = executed
		          guard.reserve
		          pay
		          guard.replace
		      RunActivity:Charge
		        guard Charge = replayed
		          guard.reserve
	`)
	attempts, calls := l.named("RunActivity:Charge"), l.named("guard Charge")
	wantLink(t, calls[1], calls[0], telemetry.LinkReplayed)
	if attempts[0].Status.Code != codes.Error || attempts[1].Status.Code == codes.Error {
		t.Errorf("the attempts have status %+v and %+v, want an error and then none", attempts[0].Status, attempts[1].Status)
	}
}

func TestWait_IsASpanInTheWaitersTraceWithALinkToTheOwner(t *testing.T) {
	t.Parallel()
	l := newLab(t, setup{})
	began, carryOn := make(chan struct{}), make(chan struct{})
	l.start(func(ctx context.Context, o Order) (string, error) {
		close(began)
		<-carryOn
		return l.pay(ctx, o)
	})
	owner := l.begin(t.Context(), 1, time.Minute)
	<-began
	waiter := l.begin(t.Context(), 1, time.Minute)
	l.waitFor(telemetry.SpanReserve, 2)
	close(carryOn)
	l.end(owner)
	l.end(waiter)
	l.wantOneCharge()
	l.want(`
		StartWorkflow:charge
		  RunWorkflow:charge
		    StartActivity:Charge
		      RunActivity:Charge
		        guard Charge = executed
		          guard.reserve
		          pay
		          guard.replace
		StartWorkflow:charge
		  RunWorkflow:charge
		    StartActivity:Charge
		      RunActivity:Charge
		        guard Charge = replayed
		          guard.reserve
		          guard.wait
	`)
	calls := l.named("guard Charge")
	wantLink(t, l.named(telemetry.SpanWait)[0], calls[0], telemetry.LinkWaitedFor)
	wantLink(t, calls[1], calls[0], telemetry.LinkReplayed)
}

func TestRefusal_IsNoErrorOfTheAttemptAndTheKeyIsInNoSpan(t *testing.T) {
	t.Parallel()
	l := newLab(t, setup{options: []guard.OperationOption{guard.OnInFlight(guard.Refuse), guard.WithLease(short)}})
	l.order.ID = "4111-1111-1111-1111"
	began, carryOn := make(chan struct{}), make(chan struct{})
	l.start(func(ctx context.Context, o Order) (string, error) {
		close(began)
		<-carryOn
		return l.pay(ctx, o)
	})
	owner := l.begin(t.Context(), 1, time.Minute)
	<-began
	refused := l.begin(t.Context(), 1, time.Minute)
	l.waitFor("RunActivity:Charge", 1) // not the owner's, which goes on
	close(carryOn)
	l.end(owner)
	l.end(refused)
	l.wantOneCharge()
	calls := l.named("guard Charge")
	if len(calls) != 3 || attribute(calls[1], telemetry.AttrOutcome) != "refused" {
		t.Fatalf("the spans are\n%swant a refusal and then a replay", tree(l.spans.GetSpans()))
	}
	wantLink(t, calls[1], calls[0], telemetry.LinkInFlight)
	for _, span := range l.spans.GetSpans() {
		if span.Name == "RunActivity:Charge" && span.Status.Code == codes.Error {
			t.Errorf("an attempt has the status %+v, want no error: it is retried when the key may be free", span.Status)
		}
		if text := fmt.Sprintf("%+v", span); strings.Contains(text, l.order.ID) {
			t.Errorf("the key is in %s", text)
		}
	}
}

// waitFor waits until so many spans of a name have ended.
func (l *lab) waitFor(name string, n int) {
	l.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(l.named(name)) < n {
		select {
		case <-tick.C:
		case <-l.t.Context().Done():
			l.t.Fatalf("no %d spans %q:\n%s", n, name, tree(l.spans.GetSpans()))
		}
	}
}

// cutOff is a store that the first owner reaches no more once it has the key, like a worker that has
// lost its network.
type cutOff struct {
	guard.Store
	mu    sync.Mutex
	first string
}

var errCutOff = errors.New("no route to the store")

func (s *cutOff) Reserve(ctx context.Context, req guard.ReserveRequest) (guard.ReserveReply, error) {
	s.mu.Lock()
	if s.first == "" {
		s.first = req.Owner.Token
	}
	s.mu.Unlock()
	return s.Store.Reserve(ctx, req)
}

// reach says whether the owner's calls arrive.
func (s *cutOff) reach(owner guard.Owner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner.Token == s.first {
		return errCutOff
	}
	return nil
}

func (s *cutOff) Renew(ctx context.Context, req guard.RenewRequest) (guard.RenewReply, error) {
	if err := s.reach(req.Record.Owner); err != nil {
		return guard.RenewReply{}, err
	}
	return s.Store.Renew(ctx, req)
}

func (s *cutOff) Replace(ctx context.Context, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	if err := s.reach(req.Record.Owner); err != nil {
		return guard.ReplaceReply{}, err
	}
	return s.Store.Replace(ctx, req)
}

func (s *cutOff) Release(ctx context.Context, req guard.ReleaseRequest) (guard.ReleaseReply, error) {
	if err := s.reach(req.Record.Owner); err != nil {
		return guard.ReleaseReply{}, err
	}
	return s.Store.Release(ctx, req)
}

func TestTakeover_IsInTheNextAttemptWithALinkToTheLostOne(t *testing.T) {
	t.Parallel()
	l := newLab(t, setup{
		store:   &cutOff{Store: guard.NewMemoryStore()},
		options: []guard.OperationOption{guard.WithLease(short)},
	})
	l.start(func(ctx context.Context, o Order) (string, error) {
		if activity.GetInfo(ctx).Attempt == 1 {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return l.pay(ctx, o)
	})
	l.end(l.begin(t.Context(), 1, 2*short))
	l.wantOneCharge()
	calls := l.named("guard Charge")
	if len(calls) != 2 {
		t.Fatalf("the spans are\n%swant two calls of the guard", tree(l.spans.GetSpans()))
	}
	if attribute(calls[1], telemetry.AttrTakeover) != "true" {
		t.Errorf("the second attempt has %v, want a takeover", calls[1].Attributes)
	}
	wantLink(t, calls[1], calls[0], telemetry.LinkTookOver)
	for i, attempt := range l.named("RunActivity:Charge") {
		if calls[i].Parent.SpanID() != attempt.SpanContext.SpanID() {
			t.Errorf("attempt %d: the guard's span is not below RunActivity:\n%s", i+1, tree(l.spans.GetSpans()))
		}
	}
}

func TestRecovery_IsASpanOfTheAttemptThatAsksWithALinkToTheOneThatMayHaveCharged(t *testing.T) {
	t.Parallel()
	var l *lab
	ask := func(ctx context.Context, _ guard.Evidence) (string, guard.Finding, error) {
		_, span := l.provider.Tracer("application").Start(ctx, "ask")
		defer span.End()
		return "paid", guard.Found, nil
	}
	l = newLab(t, setup{
		options:  []guard.OperationOption{guard.ForPayments(), guard.WithSettleTime(0)},
		recovery: temporalx.RecoverWith(ask),
	})
	l.start(func(ctx context.Context, o Order) (string, error) {
		_, _ = l.pay(ctx, o)
		return "", errors.New("the reply is lost")
	})
	l.end(l.begin(t.Context(), 1, time.Minute))
	l.wantOneCharge()
	l.want(`
		StartWorkflow:charge
		  RunWorkflow:charge
		    StartActivity:Charge
		      RunActivity:Charge
		        guard Charge = failed
		          guard.reserve
		          pay
		          guard.replace
		      RunActivity:Charge
		        guard Charge = recovered
		          guard.reserve
		          guard.recover
		            ask
		          guard.replace
	`)
	calls := l.named("guard Charge")
	wantLink(t, calls[1], calls[0], telemetry.LinkTookOver)
	wantLink(t, l.named(telemetry.SpanRecover)[0], calls[0], telemetry.LinkDispatched)
}
