package telemetry

// ScopeName is the name of the OpenTelemetry instrumentation scope of all spans.
const ScopeName = "github.com/onceguard/onceguard/telemetry"

// Names of the spans.
const (
	// SpanCallPrefix is followed by the name of the operation.
	SpanCallPrefix = "guard "
	SpanReserve    = "guard.reserve"
	SpanWait       = "guard.wait"
	SpanRenew      = "guard.renew"
	SpanReplace    = "guard.replace"
	SpanRelease    = "guard.release"
	SpanRecover    = "guard.recover"
)

// Keys of the span attributes. The package comment lists their types and values.
const (
	AttrOperation       = "onceguard.operation"
	AttrStore           = "onceguard.store"
	AttrLease           = "onceguard.lease"
	AttrKeyHash         = "onceguard.key.hash"
	AttrOutcome         = "onceguard.outcome"
	AttrFence           = "onceguard.fence"
	AttrAttempt         = "onceguard.attempt"
	AttrTakeover        = "onceguard.takeover"
	AttrDispatched      = "onceguard.dispatched"
	AttrStale           = "onceguard.stale"
	AttrLostReason      = "onceguard.lost_reason"
	AttrUnguardedReason = "onceguard.unguarded_reason"
	AttrUnstoredReason  = "onceguard.unstored_reason"
	AttrHeldReason      = "onceguard.held_reason"
	AttrPhaseResult     = "onceguard.phase.result"
	AttrErrorType       = "error.type"
	// AttrLink is an attribute of a link. It says what the linked call is to this
	// one: one of the Link constants.
	AttrLink = "onceguard.link"
)

// Values of [AttrLink].
const (
	LinkWaitedFor  = "waited_for" // it held the key that this call waited for
	LinkInFlight   = "in_flight"  // it held the key, and this call did not wait
	LinkReplayed   = "replayed"   // its result, or its error that is remembered, was returned
	LinkMismatched = "mismatched" // it used the key with another input
	LinkTookOver   = "took_over"  // it is gone and this call took the key
	LinkDispatched = "dispatched" // it may have had the effect, and this call took the key
	LinkUnknown    = "unknown"    // it may have had the effect, and this call did not run
)

// Names of the metrics. The package comment lists their types and labels.
const (
	MetricCalls            = "onceguard_calls_total"
	MetricOperationInfo    = "onceguard_operation_info"
	MetricOperationLease   = "onceguard_operation_lease_seconds"
	MetricHits             = "onceguard_hits_total"
	MetricCollisions       = "onceguard_collisions_total"
	MetricStorageErrors    = "onceguard_storage_errors_total"
	MetricUnguarded        = "onceguard_unguarded_total"
	MetricPhaseDuration    = "onceguard_phase_duration_seconds"
	MetricActionDuration   = "onceguard_action_duration_seconds"
	MetricLeasesHeld       = "onceguard_leases_held"
	MetricOldestLeaseAge   = "onceguard_oldest_lease_age_seconds"
	MetricWaiters          = "onceguard_waiters"
	MetricLeaseRenewals    = "onceguard_lease_renewals_total"
	MetricLeaseRemaining   = "onceguard_lease_remaining_ratio"
	MetricLeasesLost       = "onceguard_leases_lost_total"
	MetricTakeovers        = "onceguard_takeovers_total"
	MetricStaleResults     = "onceguard_stale_results_total"
	MetricHolds            = "onceguard_holds_total"
	MetricUnstoredResults  = "onceguard_unstored_results_total"
	MetricResultBytes      = "onceguard_result_bytes"
	MetricLogLinesDropped  = "onceguard_log_lines_dropped_total"
	metricExemplarTraceKey = "trace_id"
)

// Names of the metric labels.
const (
	LabelOperation      = "operation"
	LabelOutcome        = "outcome"
	LabelOnStorageError = "on_storage_error"
	LabelOnInFlight     = "on_in_flight"
	LabelPhase          = "phase"
	LabelClass          = "class"
	LabelReason         = "reason"
	LabelResult         = "result"
	LabelDispatched     = "dispatched"
)

// Keys of the log attributes. A line has those that it has something to say about.
const (
	LogOperation       = "operation"
	LogKeyHash         = "key_hash"
	LogOwner           = "owner" // the label of the process that logs
	LogFence           = "fence"
	LogTraceID         = "trace_id"
	LogOutcome         = "outcome"
	LogReason          = "reason"
	LogSuppressed      = "suppressed" // on a line that stands for so many of its message
	LogPhase           = "phase"
	LogClass           = "class"
	LogErrorType       = "error_type"
	LogLeaseLeft       = "lease_left"
	LogHolder          = "holder"       // the label of the owner in the record that was found, or is held
	LogHolderFence     = "holder_fence" // that of the record, by which a held key is resolved
	LogHolderTraceID   = "holder_trace_id"
	LogPrevious        = "previous_owner" // the label of the owner that was taken over
	LogPreviousFence   = "previous_fence"
	LogPreviousTraceID = "previous_trace_id"

	LogDispatched        = "dispatched" // true on a takeover if an effect may have happened
	LogDispatcher        = "dispatcher" // the label of the owner that may have had the effect
	LogDispatcherFence   = "dispatcher_fence"
	LogDispatcherTraceID = "dispatcher_trace_id"
)
