package redisx

import (
	"context"
	"fmt"

	"github.com/onceguard/onceguard/guard"
)

// Hold is part of [guard.Holder].
func (s *Store) Hold(ctx context.Context, req guard.HoldRequest) (guard.HoldReply, error) {
	claim, err := claimOf(req.Record)
	if err != nil {
		return guard.HoldReply{}, failure(guard.PhaseReplace, err)
	}
	life := guard.CompletedLifetime(req.Lease, req.Retention)
	answer, err := s.run(ctx, guard.PhaseReplace, s.scripts.hold, req.Key,
		append(claim, inMicroseconds(life), inMilliseconds(life), epoch(req.Record.Until))...)
	if err != nil {
		return guard.HoldReply{}, err
	}
	word, err := answer.word(0, string(guard.HoldHeld), string(guard.HoldAgain),
		string(guard.HoldRestored), string(guard.HoldRefused))
	if err != nil {
		return guard.HoldReply{}, failure(guard.PhaseReplace, err)
	}
	return guard.HoldReply{Status: guard.HoldStatus(word)}, nil
}

// Resolve is part of [guard.Resolver].
func (s *Store) Resolve(ctx context.Context, req guard.ResolveRequest) (guard.ResolveReply, error) {
	until, life, encoding, result := req.Retention, guard.CompletedLifetime(req.Lease, req.Retention), req.Encoding, req.Result
	if req.As == guard.StatusReleased {
		until, life, encoding, result = req.Lease, req.Lease, "", nil
	} else if !settled(req.As) {
		return guard.ResolveReply{}, failure(guard.PhaseResolve,
			fmt.Errorf("a record is settled as completed, failed or released, not as %q", req.As))
	}
	answer, err := s.run(ctx, guard.PhaseResolve, s.scripts.resolve, req.Key,
		req.Fence, escape(req.Resolver.Token, ""), escape(req.Resolver.Label, ""), escape(req.Resolver.TraceParent, ""),
		string(req.As), flag(req.Live), inMicroseconds(until), inMilliseconds(life),
		escape(encoding, ""), s.bytes(result))
	if err != nil {
		return guard.ResolveReply{}, err
	}
	reply, err := resolved(answer)
	if err != nil {
		return guard.ResolveReply{}, failure(guard.PhaseResolve, err)
	}
	return reply, nil
}

func resolved(answer reply) (guard.ResolveReply, error) {
	found, err := answer.integer(0)
	if err != nil || found == 0 {
		return guard.ResolveReply{}, err
	}
	rec, left, err := answer.record()
	if err != nil {
		return guard.ResolveReply{}, err
	}
	settled, err := answer.integer(3)
	if err != nil {
		return guard.ResolveReply{}, err
	}
	return guard.ResolveReply{Resolved: settled == 1, Found: true, Record: rec, Left: left}, nil
}
