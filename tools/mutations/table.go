package main

import "slices"

// mutation is a fault in the protocol and the test that must notice it.
type mutation struct {
	name string
	file string
	from string // occurs once
	to   string
	pkg  string
	test string // a regular expression, as for go test -run
}

const (
	contract = "^TestMemoryStore_KeepsTheContract$"
	redis    = "^TestStore_KeepsTheContract$"
)

func mutations() []mutation {
	return slices.Concat(protocol(), unknowns(), unknownsOfStores(), stores(), scripts(), waiting())
}

// protocol breaks the calls.
func protocol() []mutation {
	return []mutation{
		{
			"no join before replace", "guard/lease.go",
			"	case <-h.done:\n		h.c.own = h.own\n", "	default:\n",
			"guard", "^TestLease_ARenewalOnTheWireLandsBeforeTheResult$",
		},
		{
			"a new token per reserve", "guard/phases.go",
			"	c.sent = time.Now()\n", "	c.sent = time.Now()\n	c.request.Owner.Token = newToken()\n",
			"guard", "^TestWait_ItsOwnGhostIsRecognised$",
		},
		{
			"wait without re-check", "guard/wait.go",
			"	reply, err := w.c.reserve(ctx)\n",
			"	if !last {\n		return ReserveReply{Acquired: true, Record: w.c.unconfirmed()}, \"\", nil\n	}\n	reply, err := w.c.reserve(ctx)\n",
			"guard", "^TestCase_W7_",
		},
		{
			"fingerprint after in-flight", "guard/acquire.go",
			"	case c.request.Fingerprint.differs(rec.Fingerprint):\n",
			"	case rec.Status == StatusCompleted && c.request.Fingerprint.differs(rec.Fingerprint):\n",
			"guard", "^TestCase_W5_",
		},
		{
			"lease end on the caller's clock", "guard/lease.go",
			"h.own.Until, h.retry = reply.Until, 0", "h.own.Until, h.retry = sent.Add(h.c.op.lease), 0",
			"guard", "^TestCase_L9_",
		},
		{
			"FailClosed that runs on a read error", "guard/acquire.go",
			"ended(ctx) == nil && c.op.onStorageError == FailClosed {", "ended(ctx) == nil && c.op.onStorageError == FailClosed && phase != PhaseLoad {",
			"guard", "^TestTable_|^TestWait_AfterTheLease",
		},
		{
			"a waiter that runs on a blip", "guard/wait.go",
			"		if ended(ctx) == nil && !atBound && time.Now().Before(w.leaseEnd) {\n", "		if false {\n",
			"guard", "^TestWait_BlipsOfTheStore",
		},
		{
			"the result is stored on the caller's context", "guard/phases.go",
			"context.WithTimeout(context.WithoutCancel(ctx), c.op.storeTimeout)", "context.WithTimeout(ctx, c.op.storeTimeout)",
			"guard", "^TestCase_R5_",
		},
		{
			"a panic leaves the key reserved", "guard/settle.go",
			"		c.leaveForSure(ctx, held, s)\n	}()\n", "		if actionErr != ErrActionUnwound {\n			c.leaveForSure(ctx, held, s)\n		}\n	}()\n",
			"guard", "^TestCase_R8_",
		},
		{
			"no last reserve at the wait bound", "guard/wait.go",
			"	reply, phase, err := w.ask(ctx, phaseCtx, atBound)\n",
			"	if atBound {\n		outcome, err := w.c.refuse(ctx, w.seen)\n		return outcome, true, err\n	}\n	reply, phase, err := w.ask(ctx, phaseCtx, atBound)\n",
			"guard", "^TestWait_OneLastReserveAtTheBound$",
		},
		{
			"a renewal that fails ends the renewals", "guard/lease.go",
			"		return h.failed(ctx, sent), true\n", "		return next, false\n",
			"guard", "^TestCase_L2_",
		},
		{
			"a lost reserve is not given back", "guard/call.go",
			"	if !c.unknown {\n", "	if true {\n",
			"guard", "^TestStorage_FailClosedRetryDoesNotMeetItsOwnGhost$",
		},
		{
			"one try to store a result", "guard/settle.go",
			"	case held != nil && (s.how != wayRelease || s.dispatched):\n", "	case false:\n",
			"guard", "^TestStorage_AResultIsStoredWhenTheStoreIsBackWithinTheLease$",
		},
		{
			"a deadline counts when the context says so", "guard/left.go",
			"ok && !time.Now().Before(deadline) {", "ok && !time.Now().Before(deadline.Add(time.Hour)) {",
			"guard", "^TestStorage_ADeadlineThatPasses",
		},
		{
			"the result is encoded without the lease", "guard/settle.go",
			"	s.dispatched, obeys = held.closeDispatch()\n", "	s.dispatched, obeys = held.closeDispatch()\n	held.stop()\n	held = nil\n",
			"guard", "^TestLease_TheResultIsEncodedUnderTheLease$",
		},
	}
}

// stores breaks the in-memory store.
func stores() []mutation {
	return []mutation{
		{
			"release without owner check", "guard/memory.go",
			"		case old.Owner.Token != req.Record.Owner.Token || old.settled():\n", "		case old.settled():\n",
			"guard", "^TestCase_L4_",
		},
		{
			"replace without condition", "guard/memory.go",
			"			return ReplaceReply{Status: ReplaceStale}, nil\n", "",
			"guard", "^TestCase_L5_",
		},
		{
			"blind renewal", "guard/memory.go",
			"	case old != nil && old.Status == StatusPending && old.Owner.Token == req.Record.Owner.Token:\n		next, status = old.Record, RenewOK\n",
			"	case old != nil:\n		next, status = req.Record, RenewOK\n",
			"guard", "^TestCase_L3_",
		},
		{
			"put-back without the time condition", "guard/memory.go",
			"	case old == nil && now.Before(req.Record.Until):\n", "	case old == nil:\n",
			"guard", "^TestCase_L9_",
		},
		{
			"a late renewal shortens a lease", "guard/memory.go",
			"	if until := now.Add(lease); until.After(rec.Until) {\n		rec.Until = until\n	}\n", "	rec.Until = now.Add(lease)\n",
			"guard", "^TestKeepReserved_ARenewalThatLandsLate",
		},
		{
			"no tombstone", "guard/memory.go",
			"	m.put(req.Key, next, next.Until)\n", "	m.put(req.Key, next, now)\n",
			"guard/storetest", contract,
		},
		{
			"a fence that follows the clock alone", "guard/memory_hold.go",
			"	r.Fence, r.Attempt = max(old.Fence+1, r.Fence), old.Attempt+1\n	open", "	r.Attempt = old.Attempt + 1\n	open",
			"guard", "^TestMemoryStore_TheFenceGrowsWhenTheClockStandsStill$",
		},
	}
}

// scripts breaks the store on Redis.
func scripts() []mutation {
	return []mutation{
		{
			"Redis: release without owner check", "redisx/release.lua",
			"elseif old.owner ~= ARGV[1] or settled(old) then", "elseif settled(old) then",
			"redisx", redis,
		},
		{
			"Redis: replace without condition", "redisx/replace.lua",
			"elseif not old or free() then", "elseif true then",
			"redisx", redis,
		},
		{
			"Redis: blind renewal", "redisx/renew.lua",
			"if old and old.status == 'pending' and old.owner == ARGV[1] then", "if old then",
			"redisx", redis,
		},
		{
			"Redis: put-back without the time condition", "redisx/renew.lua",
			"elseif not old and now < tonumber(ARGV[6]) then", "elseif not old then",
			"redisx", redis,
		},
		{
			"Redis: a late renewal shortens a lease", "redisx/common.lua",
			"math.max(record.until_us or 0, until_us)", "until_us",
			"redisx", redis,
		},
		{
			"Redis: no tombstone", "redisx/release.lua",
			"write(KEYS[1], record, now, ARGV[7])", "redis.call('DEL', KEYS[1])",
			"redisx", redis,
		},
		{
			"Redis: a fence that loses digits", "redisx/common.lua",
			"  return string.format('%.0f', math.min(number, LIMIT))", "  return tostring(math.min(number, LIMIT))",
			"redisx", redis,
		},
		{
			"Redis: takes a dispatched key without finding out", "redisx/reserve.lua",
			"if settle and now >= old.updated_us + settle then return 'taken' end", "do return 'taken' end",
			"redisx", redis,
		},
		{
			"Redis: release drops another's evidence", "redisx/release.lua",
			"elseif evidence(old) then", "elseif false then",
			"redisx", redis,
		},
		{
			"Redis: settles what was not seen", "redisx/resolve.lua",
			" or tonumber(old.fence) ~= tonumber(ARGV[1])", "",
			"redisx", redis,
		},
		{
			"Redis: an owner overwrites what was settled for it", "redisx/replace.lua",
			"if mine and old.status ~= 'released' and not old.resolver then", "if mine and old.status ~= 'released' then",
			"redisx", redis,
		},
		{
			"Redis: evidence that expires like any reservation", "redisx/common.lua",
			"    life = math.max(life, tonumber(dispatched_px))\n", "",
			"redisx", "^TestHold_WhatMayHaveHappenedIsKeptForTheHoldsRetention$",
		},
	}
}
