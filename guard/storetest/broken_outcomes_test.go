package storetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// outcomeFaults are ways to break what a store does with outcomes that nobody knows.
func outcomeFaults() []fault {
	return []fault{
		{"who does not recover takes over what was dispatched", wrap(withReserve(allRecover)), []string{
			"Takeover of what was dispatched/without recovery it becomes held in that very step",
			"Takeover of what was dispatched/of many callers that do not recover exactly one makes it held",
		}},
		{"two recover at once", wrap(withReserve(recoversTogether)), []string{
			"Takeover of what was dispatched/of many callers that recover exactly one takes over",
		}},
		{"a takeover forgets the evidence", wrap(withReserve(forgetsEvidence)), []string{
			"Takeover of what was dispatched/with recovery it is taken over with its evidence",
			"Takeover of what was dispatched/a second takeover names the last owner, and the first as the dispatcher",
		}},
		{"nothing is given time to settle", wrap(withReserve(neverSettles)), []string{
			"Takeover of what was dispatched/until it has settled it becomes and stays held",
			"Takeover of what was dispatched/once it has settled it is taken over",
		}},
		{"inputs are not compared", wrap(withReserve(anyInput)), []string{
			"Input of what was dispatched/another input changes nothing, with recovery or without",
			"Input of what was dispatched/another input changes nothing of a held record either",
		}},
		{"a renewal puts a record back without its evidence", wrap(withRenew(restoresClean)), []string{
			"Mark/a missing record is put back with its evidence",
			"Mark/a missing record is put back with the evidence of an earlier owner",
		}},
		{"a renewal revives a held record", wrap(withRenew(revivesHeld)), []string{
			"Held/its owner's renewal is lost, whatever it asks for",
		}},
		{"the word that nothing happened is not heard", wrap(withRenew(nothingHeard)), []string{
			"Nothing found/it clears the evidence of an earlier owner, and nothing else",
			"Release what another dispatched/the caller's own evidence makes it a tombstone",
		}},
		{"a release drops the evidence of another", wrap(withRelease(dropsEvidence)), []string{
			"Release what another dispatched/the record is held again, and its dispatcher's",
		}},
		{"an error is stored as a result", wrap(withReplace(neverFails)), []string{
			"Failed/the owner's reservation becomes its error",
		}},
		{"a result takes the place of what another dispatched", wrap(withReplace(replacesDispatched)), []string{
			"Replace what was dispatched/another owner's expired dispatched reservation makes it stale and stays",
		}},
		{"a hold takes the key from its owner", func(s able) guard.Store { return holdsAny{s} }, []string{
			"Hold/another owner's live reservation stays",
			"Hold/another owner's dispatched reservation stays, live or expired",
		}},
		{"who settles a record need not have seen it", func(s able) guard.Store { return settlesUnseen{s} }, []string{
			"Resolve/another fence than the record's changes nothing",
			"Resolve/the fence of a record that was taken over since changes nothing",
		}},
		{"a settled record keeps its fence", func(s able) guard.Store { return settlesInPlace{s} }, []string{
			"Resolve/a held record is settled",
		}},
		{"a live reservation is settled unasked", func(s able) guard.Store { return settlesLive{s} }, []string{
			"Resolve/a live reservation stays and is named",
		}},
		{"an erasure forgets a held record", func(s able) guard.Store { return erasesHeld{s} }, []string{
			"Erase/a held record stays and is named",
		}},
		{"a list has no held records", func(s able) guard.Store { return listsPending{s} }, []string{
			"List/dispatched and held records are listed",
		}},
		{"a list ends with its first page", func(s able) guard.Store { return listsOnePage{s} }, []string{
			"List/pages of one come to an end, and none is left out while others come and go",
		}},
	}
}

func allRecover(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	req.Recovers = true
	return s.Reserve(ctx, req)
}

func recoversTogether(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	loaded, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
	if err != nil {
		return guard.ReserveReply{}, err
	}
	time.Sleep(10 * time.Millisecond) // two callers are here at once
	reply, err := s.Reserve(ctx, req)
	if req.Recovers && loaded.Left == 0 && loaded.Record.Dispatch != nil {
		reply.Acquired = true
	}
	return reply, err
}

func forgetsEvidence(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	reply, err := s.Reserve(ctx, req)
	if err != nil || reply.Record.TookOver == nil || reply.Record.Dispatch == nil {
		return reply, err
	}
	reply.Record.Dispatch = nil
	_, err = s.Renew(ctx, guard.RenewRequest{
		Key: req.Key, Record: reply.Record, NothingFound: true,
		Lease: req.Lease, Retention: req.Retention, HoldRetention: req.HoldRetention,
	})
	return reply, err
}

func neverSettles(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	req.Settle = 0
	return s.Reserve(ctx, req)
}

func anyInput(ctx context.Context, s guard.Store, req guard.ReserveRequest) (guard.ReserveReply, error) {
	loaded, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
	if err != nil {
		return guard.ReserveReply{}, err
	}
	if loaded.Record.Dispatch != nil {
		req.Fingerprint = loaded.Record.Fingerprint
	}
	return s.Reserve(ctx, req)
}

func restoresClean(ctx context.Context, s guard.Store, req guard.RenewRequest) (guard.RenewReply, error) {
	req.Record.Dispatch = nil
	return s.Renew(ctx, req)
}

func revivesHeld(ctx context.Context, s guard.Store, req guard.RenewRequest) (guard.RenewReply, error) {
	loaded, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
	if err != nil {
		return guard.RenewReply{}, err
	}
	if loaded.Record.Status == guard.StatusHeld && loaded.Record.Owner.Token == req.Record.Owner.Token {
		return guard.RenewReply{Status: guard.RenewOK, Until: loaded.Record.Until}, nil
	}
	return s.Renew(ctx, req)
}

func nothingHeard(ctx context.Context, s guard.Store, req guard.RenewRequest) (guard.RenewReply, error) {
	req.NothingFound = false
	return s.Renew(ctx, req)
}

func dropsEvidence(ctx context.Context, s guard.Store, req guard.ReleaseRequest) (guard.ReleaseReply, error) {
	_, err := s.Renew(ctx, guard.RenewRequest{Key: req.Key, Record: req.Record, NothingFound: true, Lease: req.Lease})
	if err != nil {
		return guard.ReleaseReply{}, err
	}
	return s.Release(ctx, req)
}

func neverFails(ctx context.Context, s guard.Store, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	req.Failed = false
	return s.Replace(ctx, req)
}

func replacesDispatched(ctx context.Context, s guard.Store, req guard.ReplaceRequest) (guard.ReplaceReply, error) {
	loaded, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
	if err != nil {
		return guard.ReplaceReply{}, err
	}
	if loaded.Left == 0 && loaded.Record.Dispatch != nil {
		req.Record.Owner = loaded.Record.Owner
	}
	return s.Replace(ctx, req)
}

type holdsAny struct{ able }

func (s holdsAny) Hold(ctx context.Context, req guard.HoldRequest) (guard.HoldReply, error) {
	reply, err := s.able.Hold(ctx, req)
	if err != nil || reply.Status != guard.HoldRefused {
		return reply, err
	}
	loaded, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
	if err != nil {
		return guard.HoldReply{}, err
	}
	req.Record = loaded.Record
	return s.able.Hold(ctx, req)
}

type settlesUnseen struct{ able }

func (s settlesUnseen) Resolve(ctx context.Context, req guard.ResolveRequest) (guard.ResolveReply, error) {
	loaded, err := s.Load(ctx, guard.LoadRequest{Key: req.Key})
	if err != nil {
		return guard.ResolveReply{}, err
	}
	req.Fence = loaded.Record.Fence
	return s.able.Resolve(ctx, req)
}

type settlesInPlace struct{ able }

func (s settlesInPlace) Resolve(ctx context.Context, req guard.ResolveRequest) (guard.ResolveReply, error) {
	reply, err := s.able.Resolve(ctx, req)
	if reply.Resolved {
		reply.Record.Fence = req.Fence
	}
	return reply, err
}

type settlesLive struct{ able }

func (s settlesLive) Resolve(ctx context.Context, req guard.ResolveRequest) (guard.ResolveReply, error) {
	req.Live = true
	return s.able.Resolve(ctx, req)
}

type erasesHeld struct{ able }

func (s erasesHeld) Erase(ctx context.Context, req guard.EraseRequest) (guard.EraseReply, error) {
	reply, err := s.able.Erase(ctx, req)
	if err != nil || reply.Record.Status != guard.StatusHeld {
		return reply, err
	}
	_, err = s.Resolve(ctx, guard.ResolveRequest{
		Key: req.Key, Fence: reply.Record.Fence, Resolver: guard.Owner{Token: "eraser"},
		As: guard.StatusReleased, Lease: req.Lease,
	})
	return guard.EraseReply{Erased: true}, err
}

type listsPending struct{ able }

func (s listsPending) List(ctx context.Context, req guard.ListRequest) (guard.ListReply, error) {
	reply, err := s.able.List(ctx, req)
	reply.Records = slices.DeleteFunc(reply.Records, func(l guard.Listed) bool { return l.Record.Status == guard.StatusHeld })
	return reply, err
}

type listsOnePage struct{ able }

func (s listsOnePage) List(ctx context.Context, req guard.ListRequest) (guard.ListReply, error) {
	reply, err := s.able.List(ctx, req)
	reply.Cursor = ""
	return reply, err
}
