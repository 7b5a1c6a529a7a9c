package main

// waiting breaks how activities wait, are completed later, and give up.
func waiting() []mutation {
	return []mutation{
		{
			"an activity runs beside a heartbeat of its wait", "temporalx/interceptor.go",
			"		joinWait(ctx)\n", "",
			"temporalx", "^TestWaiting_TheActivityRunsWhenTheLastHeartbeatOfItsWaitIsOver$",
		},
		{
			"a heartbeat ends with the wait", "temporalx/heartbeat.go",
			"	activity.RecordHeartbeat(attempt, v.details...)\n", "	activity.RecordHeartbeat(waits, v.details...)\n",
			"temporalx", "^TestWaiting_AHeartbeatOfTheActivitySoonAfterItsWaitIsSent$",
		},
		{
			"a heartbeat without the details", "temporalx/heartbeat.go",
			"	activity.RecordHeartbeat(attempt, v.details...)\n", "	activity.RecordHeartbeat(attempt)\n",
			"temporalx", "^TestCase_T15_",
		},
		{
			"a stop of the worker wakes nobody", "temporalx/waiting.go",
			"	go watch(waits, activity.GetWorkerStopChannel(ctx), wake)\n", "",
			"temporalx", "^TestWaiting_IsWokenWhenTheWorkerStops$",
		},
		{
			"waiters without a limit", "temporalx/waiting.go",
			"	if p.taken.Add(1) <= p.limit {\n", "	if p.taken.Add(1) > 0 {\n",
			"temporalx", "^TestWaiting_NeverFillsTheSlotsOfAWorker$",
		},
		{
			"a wait up to the deadline", "temporalx/waiting.go",
			"guard.WaitAtMost(left-margin)", "guard.WaitAtMost(left+margin)",
			"temporalx", "^TestWaiting_LeavesTheMarginThatIsSet$",
		},
		{
			"attempts without a turn", "temporalx/interceptor.go",
			"		options = append(options, turn(info))\n", "		_ = turn\n",
			"temporalx", "^TestResultPending_ALaterAttemptTakesOverWhatAnEarlierOneHasLeft$",
		},
		{
			"an activity that gives up has failed", "guard/left.go",
			"	c.left, c.gaveUp = cause, true\n	return true\n", "	c.left = cause\n	return false\n",
			"temporalx", "^TestCase_T3_",
		},
		{
			"a second completion overwrites the first", "guard/memory.go",
			"		case ours && old.settled() && old.Resolved == nil && old.Until.After(now):\n", "		case false:\n",
			"guard", "^TestComplete_TheFirstOneCounts$",
		},
		{
			"an early completion is a lost lease", "guard/lease.go",
			"		if rec, ok := h.c.completedAlready(ctx); ok && rec.settled() {\n", "		if rec, ok := h.c.completedAlready(ctx); ok && rec.settled() && false {\n",
			"guard", "^TestComplete_WhileTheActionRunsIsNoLossAndItsResultCounts$",
		},
		{
			"another completion is taken for the same", "guard/complete.go",
			"	case !is:\n", "	case !is && false:\n",
			"temporalx", "^TestCompleteActivity_TheFirstOneCounts$",
		},
		{
			"any job takes over what is kept", "guard/store.go",
			"t.Job == next.Job && t.Number < next.Number", "t.Number < next.Number",
			"guard/storetest", contract,
		},
		{
			"a turn takes over its own job's later one", "guard/store.go",
			"t.Job == next.Job && t.Number < next.Number", "t.Job == next.Job",
			"guard/storetest", contract,
		},
	}
}
