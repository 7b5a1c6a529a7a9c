package main

// unknowns breaks what becomes of effects that may have happened.
func unknowns() []mutation {
	return []mutation{
		{
			"a dispatched run is released", "guard/settle.go",
			"	if s.dispatched {\n		s.how = wayHold\n", "	if false {\n		s.how = wayHold\n",
			"guard", "^TestDispatched_NeverEndsInARelease$",
		},
		{
			"an unconfirmed mark does not count", "guard/dispatch.go",
			"return at != notDispatched || refused, refused", "return at == isDispatched, refused",
			"guard", "^TestDispatched_AnUnconfirmedMarkCounts$",
		},
		{
			"dispatched without the store's word", "guard/dispatch.go",
			"		return said.own, said.err\n", "		return said.own, nil\n",
			"guard", "^TestDispatched_NilOnlyOnTheStoresWord$",
		},
		{
			"a store error after not found runs", "guard/recovery.go",
			"	case err == nil:\n		c.own, c.recovering = own, false\n", "	case true || err == nil:\n		c.own, c.recovering = own, false\n",
			"guard", "^TestRecovery_TheEvidenceSurvives$",
		},
		{
			"a hook's error counts as its finding", "guard/recovery.go",
			"	case answer.err != nil:\n		answer.found = CannotTell\n", "	case false:\n",
			"guard", "^TestRecovery_CannotTellHoldsAndKeepsTheEvidence$",
		},
		{
			"a call that cannot tell releases", "guard/settle.go",
			"		s.how, s.reason = wayHold, ReasonCannotTell\n", "		s.how = wayResult\n",
			"guard", "^TestRecovery_CannotTellHoldsAndKeepsTheEvidence$",
		},
		{
			"not found leaves the old evidence", "guard/recovery.go",
			"mark{nothingFound: true, dispatched", "mark{nothingFound: false, dispatched",
			"guard", "^TestRecovery_NotFoundRunsAndIsTheRunInQuestionFromThenOn$",
		},
		{
			"a policy's panic reaches the caller", "guard/settle.go",
			"	defer contain()\n	return c.op.onFailure(", "	return c.op.onFailure(",
			"guard", "^TestOnFailure_SaysWhatBecomesOfTheKey$",
		},
		{
			"unreadable results run at most once more", "guard/unknown.go",
			"	if s.protects() && !s.onUnreadableSet {\n", "	if false {\n",
			"guard", "^TestForPayments_AResultThatCannotBeReadRunsNothing$|^TestAtMostOnce",
		},
		{
			"a mark after the action has come back", "guard/dispatch.go",
			"d.at.Swap(dispatchClosed)", "d.at.Load()",
			"guard", "^TestDispatched_IsTooLateOnceTheActionHasComeBack$",
		},
		{
			"dispatched past the lease without asking", "guard/dispatch.go",
			"d.at.Load() == isDispatched && time.Now().Before(h.end()) {", "d.at.Load() == isDispatched {",
			"guard", "^TestDispatched_AfterAStandstillItAsksTheStore$",
		},
		{
			"what never ran is not given back", "guard/call.go",
			"c.release(ctx) != nil && c.request.Dispatched {", "c.release(ctx) != nil && false {",
			"guard", "^TestAtMostOnce_ABlipHoldsNothingThatNeverRan$",
		},
	}
}

// unknownsOfStores breaks them in the in-memory store.
func unknownsOfStores() []mutation {
	return []mutation{
		{
			"a late hold undoes what was settled", "guard/memory_hold.go",
			"		case ours, mayBeAnothers, !old.vacant(now):\n			return HoldReply", "		case ours, mayBeAnothers && false, !old.vacant(now):\n			return HoldReply",
			"guard", "^TestHold_ThatIsRepeatedLateUndoesNothing$",
		},
		{
			"a dispatched reservation is free", "guard/memory_hold.go",
			"r.Status == StatusPending && over && r.Dispatch == nil:", "r.Status == StatusPending && over:",
			"guard", "^TestAtMostOnce_ADeadOwnersKeyIsHeldAndNothingRuns$",
		},
		{
			"the hook is asked too early", "guard/memory_hold.go",
			"	case req.Recovers && !now.Before(r.Updated.Add(req.Settle)):\n", "	case req.Recovers:\n",
			"guard", "^TestRecovery_WaitsForTheSettleTime$",
		},
		{
			"another input takes what was dispatched", "guard/memory_hold.go",
			", req.Fingerprint.differs(r.Fingerprint):\n", ":\n",
			"guard/storetest", contract,
		},
		{
			"a takeover forgets the dispatch", "guard/memory_hold.go",
			"	if r.Dispatch = old.Dispatch; r.Dispatch != nil", "	if r.Dispatch != nil",
			"guard", "^TestRecovery_FoundIsTheResultOfAllWhoAsk$",
		},
		{
			"a release drops another's evidence", "guard/memory.go",
			"		case old.evidence():\n", "		case false:\n",
			"guard", "^TestRecovery_TheEvidenceSurvives$",
		},
		{
			"a resolution of what was not seen", "guard/memory_hold.go",
			" || old.Fence != req.Fence {\n", " {\n",
			"guard", "^TestResolve_",
		},
		{
			"a resolution that its owner undoes", "guard/memory.go",
			"ours && old.Status != StatusReleased && old.Resolved == nil:", "ours && old.Status != StatusReleased:",
			"guard", "^TestResolve_OverALiveOwnerRevivesNothing$",
		},
	}
}
