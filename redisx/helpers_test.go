package redisx

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
)

const (
	testLease     = time.Minute
	testRetention = time.Hour
)

func testKey(t *testing.T) guard.Key {
	t.Helper()
	return guard.Key{Operation: "payment.charge", Name: t.Name() + rand.Text()}
}

// phaseCall is one method of a store on one key and owner.
type phaseCall struct {
	phase guard.Phase
	do    func(ctx context.Context) error
}

// phaseCalls is every method, in an order in which each has its way: the key is
// reserved, renewed, replaced, loaded and left alone by what comes after that.
func phaseCalls(s *Store, key guard.Key) []phaseCall {
	rec := guard.Record{Owner: guard.Owner{Token: rand.Text()}}
	return []phaseCall{
		{guard.PhaseReserve, func(ctx context.Context) error {
			_, err := s.Reserve(ctx, guard.ReserveRequest{
				Key: key, Owner: rec.Owner, Lease: testLease, Retention: testRetention,
			})
			return err
		}},
		{guard.PhaseRenew, func(ctx context.Context) error {
			_, err := s.Renew(ctx, guard.RenewRequest{
				Key: key, Record: rec, Lease: testLease, Retention: testRetention,
			})
			return err
		}},
		{guard.PhaseReplace, func(ctx context.Context) error {
			_, err := s.Replace(ctx, guard.ReplaceRequest{
				Key: key, Record: rec, Lease: testLease, Retention: testRetention,
			})
			return err
		}},
		{guard.PhaseLoad, func(ctx context.Context) error {
			_, err := s.Load(ctx, guard.LoadRequest{Key: key})
			return err
		}},
		{guard.PhaseRelease, func(ctx context.Context) error {
			_, err := s.Release(ctx, guard.ReleaseRequest{Key: key, Record: rec, Lease: testLease})
			return err
		}},
		{guard.PhaseErase, func(ctx context.Context) error {
			_, err := s.Erase(ctx, guard.EraseRequest{Key: guard.Key{Name: key.Name + " of nobody"}, Lease: testLease})
			return err
		}},
		{guard.PhaseReplace, func(ctx context.Context) error {
			_, err := s.Hold(ctx, guard.HoldRequest{Key: key, Record: rec, Lease: testLease, Retention: testRetention})
			return err
		}},
		{guard.PhaseResolve, func(ctx context.Context) error {
			_, err := s.Resolve(ctx, guard.ResolveRequest{Key: key, As: guard.StatusReleased, Lease: testLease})
			return err
		}},
	}
}

// acquire reserves a key and fails the test if it is not free.
func acquire(t *testing.T, s *Store, key guard.Key, owner guard.Owner, lease time.Duration) guard.Record {
	t.Helper()
	reply, err := s.Reserve(t.Context(), guard.ReserveRequest{
		Key: key, Owner: owner, Lease: lease, Retention: testRetention,
		Fingerprint: guard.Fingerprint{Algorithm: "sha256-json", Digest: "9f86d081"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reply.Acquired {
		t.Fatalf("not acquired: %+v", reply.Record)
	}
	return reply.Record
}

func mustReplace(t *testing.T, s *Store, key guard.Key, rec guard.Record, result string) guard.ReplaceStatus {
	t.Helper()
	reply, err := s.Replace(t.Context(), guard.ReplaceRequest{
		Key: key, Record: rec, Encoding: "json", Result: []byte(result), Lease: testLease, Retention: testRetention,
	})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Status
}

func mustLoad(t *testing.T, s *Store, key guard.Key) guard.LoadReply {
	t.Helper()
	reply, err := s.Load(t.Context(), guard.LoadRequest{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// hook sees the commands of a client: one command is one round trip.
type hook struct {
	mu    sync.Mutex
	names []string
	// answer, when set, replies in the place of the server.
	answer func(cmd *redis.Cmd)
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.mu.Lock()
		h.names = append(h.names, cmd.Name())
		h.mu.Unlock()
		if eval, ok := cmd.(*redis.Cmd); ok && h.answer != nil {
			h.answer(eval)
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// take returns the commands since the last take.
func (h *hook) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.names
	h.names = nil
	return names
}
