// Package telemetry shows what a guard does, as OpenTelemetry spans, Prometheus or
// OpenTelemetry metrics and slog lines.
//
//	tel, err := telemetry.New(telemetry.Options{Registerer: reg, TracerProvider: tp, Logger: logger})
//	g, err := guard.New(store, guard.WithObserver(tel))
//
// Each signal is off until it is given somewhere to go; no global provider,
// registry or logger is ever used. Metrics are atomic counters that are bound once
// per operation. Spans end into the provider's processor and lines go to the
// logger's handler while the call waits: give ones that do not block, such as a
// batch processor.
//
// A panic in a tracer, a span processor, a synchronous exporter or a log handler is contained: what
// it was to show is lost, and the action, its result and its key are as they would be without it. Two
// things are not ours to contain. A batch processor exports in a goroutine of the SDK, where a panic
// of the exporter ends the process. A [runtime.Goexit], as that of a test's FailNow, ends the goroutine
// that it comes in, and if that is the caller's, the call: its key can stay reserved until the lease is
// over, and the gauges of leases can go on counting it; where each renewal starts, nothing is renewed.
//
// # What is never shown
//
// No key, input, result or error text becomes an attribute, a label or a part of
// a log line. Keys appear as [guard.Guard.KeyHash]; errors as a word, a class or a Go
// type, since their texts can quote anything.
//
// # Spans
//
//	guard <operation>    around the call; a child of the span in the caller's context
//	├─ guard.reserve     asks the store for the key
//	├─ guard.wait        waits for another owner
//	├─ guard.recover     asks the recovery hook, whose own spans are its children
//	├─ (the action's own spans)
//	├─ guard.renew       one for each renewal of the lease; slow and failed ones only with
//	│                    Options.RenewSpansOver
//	├─ guard.replace     stores the result, or makes the key held
//	└─ guard.release     frees the key, or leaves it held
//
// All are INTERNAL. A call that is not sampled makes no phase spans. Attributes:
//
//	onceguard.operation         string   all; seen by samplers
//	onceguard.store             string   all; seen by samplers
//	onceguard.lease             double   call; seconds; seen by samplers
//	onceguard.key.hash          string   call
//	onceguard.outcome           string   call; one of guard.Outcomes
//	onceguard.fence             int      call; of the record whose result it has, absent without one
//	onceguard.attempt           int      call; of the same record
//	onceguard.takeover          bool     call; true if it took the key from an owner that is gone
//	onceguard.dispatched        bool     call; true if it took the key although an effect may have happened
//	onceguard.lost_reason       string   call; present if its lease was lost: taken, expired, max_hold
//	onceguard.stale             bool     call; true if its result was refused: evidence of a double run
//	onceguard.unguarded_reason  string   call; present if the action ran without a reservation
//	onceguard.unstored_reason   string   call; present if its result was not stored
//	onceguard.held_reason       string   call; present if the key is held since: one of guard's reasons
//	onceguard.phase.result      string   phases; what the store replied, for wait the outcome, for
//	                                     recover found, not_found or cannot_tell
//	error.type                  string   call, phases
//
// error.type of a call is in_progress, mismatch, outcome_unknown, invalid_key, invalid_input,
// nested_call, draining, stale (a completion that was refused), canceled, deadline_exceeded,
// unwound (a panic or Goexit), the class of a storage error, or the Go type of the action's error,
// also of one that is remembered. Of a caller that left it can be the reason that an adapter names,
// see [guard.CancelReason]: for Temporal activities canceled, worker_shutdown, paused, reset,
// attempt_closed or heartbeat. Of a phase it is the class, and of a recovery canceled,
// deadline_exceeded or the Go type of the hook's error.
//
// The status of a call's span is Error when the call returned an error to its
// caller, except when the caller itself canceled, before the action began or during it
// (outcomes canceled and interrupted), or when the action left its result to a later
// completion (outcome pending). A result that
// is replayed or recovered, a wait and an absorbed storage error are no errors; a
// remembered error is one. Phase spans have no status: a failed phase that was
// absorbed has error.type only.
//
// Links lead to the trace in the record that a call met, with onceguard.link:
//
//	waited_for  on guard.wait     held the key
//	in_flight   on the call       held the key, and this call did not wait
//	replayed    on the call       made the result, or the remembered error, that is returned
//	mismatched  on the call       used the key with another input
//	took_over   on the call       had the key until its lease ran out, or the key was held
//	dispatched  on the call       may have had the effect; if that is not who had the key last
//	            on guard.recover  may have had the effect that the hook asks about
//	unknown     on the call       may have had the effect, so that this call did not run
//
// # Metrics
//
// Every series of an operation is there, at 0, as soon as the operation is made,
// so that the first error is a step that increase() sees, if a scrape came before it; the alerts of
// the folder dashboards see those that came sooner, too. An operation has
// [SeriesPerOperation] series, each bucket counted, whatever keys and errors come.
//
//	Prometheus                          OpenTelemetry                    unit       type       labels
//	onceguard_calls_total               onceguard.calls                  {call}     counter    operation, outcome
//	onceguard_operation_info            onceguard.operation.info         -          gauge      operation, on_storage_error, on_in_flight
//	onceguard_operation_lease_seconds   onceguard.operation.lease        s          gauge      operation
//	onceguard_hits_total                onceguard.hits                   {call}     counter    operation
//	onceguard_collisions_total          onceguard.collisions             {call}     counter    operation
//	onceguard_storage_errors_total      onceguard.storage.errors         {error}    counter    operation, phase, class
//	onceguard_unguarded_total           onceguard.unguarded              {call}     counter    operation, reason
//	onceguard_phase_duration_seconds    onceguard.phase.duration         s          histogram  operation, phase
//	onceguard_action_duration_seconds   onceguard.action.duration        s          histogram  operation, result
//	onceguard_leases_held               onceguard.leases.held            {lease}    gauge      operation
//	onceguard_oldest_lease_age_seconds  onceguard.oldest_lease.age       s          gauge      operation
//	onceguard_waiters                   onceguard.waiters                {call}     gauge      operation
//	onceguard_lease_renewals_total      onceguard.lease.renewals         {renewal}  counter    operation, result
//	onceguard_lease_remaining_ratio     onceguard.lease.remaining.ratio  1          histogram  operation
//	onceguard_leases_lost_total         onceguard.leases.lost            {lease}    counter    operation
//	onceguard_takeovers_total           onceguard.takeovers              {takeover} counter    operation, dispatched
//	onceguard_stale_results_total       onceguard.stale.results          {result}   counter    operation
//	onceguard_holds_total               onceguard.holds                  {key}      counter    operation, reason
//	onceguard_unstored_results_total    onceguard.unstored.results       {result}   counter    operation, reason
//	onceguard_result_bytes              onceguard.result                 By         histogram  operation
//	onceguard_log_lines_dropped_total   onceguard.log.lines.dropped      {line}     counter    operation
//
// The label result of an action is ok, error, or interrupted if it gave up because its caller
// had left. The histograms carry the trace id of sampled calls as exemplars, each bucket a fresh
// one in a second at most; the durations are classic and native. A phase that
// failed is measured like one that did not. Two operations of one name share their
// series; the settings shown are those of the last one. A result that is stored
// behind its caller, or given up, is counted when that is known, after the end of its
// call and its span.
//
// The label dispatched of a takeover is true if an earlier owner may have had the
// effect. The holds are counted when a key becomes held, each with its reason, one of
// guard's: policy, dispatched, unwound, unstored, cannot_tell, abandoned. A key that is
// held and never asked for again moves nothing else: alert on their increase.
//
// Options.MeterProvider, in place of a Registerer, has the same instruments made by the OpenTelemetry
// API. The standard translation to Prometheus makes of their names those of a registry, and the labels
// are attributes of the same names: boards and alerts work on both. What is different: a histogram is
// there from its first value on; the gauges leases held and waiters are up-down counters, the other
// ones observable; native buckets, and which values get an exemplar, are for the SDK to say, which is
// given the span of each sampled call, of counters too. The SDK keeps 2000 attribute sets of an
// instrument by default, which is room for the storage errors of 41 operations: see WithCardinalityLimit
// of its package sdk/metric.
//
// # Logs
//
//	ERROR  key held; lease lost; result refused as stale; store call failed
//	WARN   renewal failed; call refused; completion refused; outcome unknown; mismatch; action without a reservation;
//	       result not stored
//	INFO   stored result or remembered error returned; result recovered; key reserved by
//	       another owner; takeover
//	DEBUG  lease acquired; lease ended
//
// A key that is held is an error because somebody must find out what happened. Its line
// and those of the calls that meet it have the owner of the record (holder; its fence is
// the one to resolve the key with) and who may have had the effect (dispatcher). So have
// a recovery and, with dispatched=true, a takeover that can lead to one, the latter of these.
//
// Messages are constants, the Log constants are the keys of the attributes. Every line but those
// with suppressed has operation, key_hash and owner, and fence and trace_id when there are any.
//
// A storm collapses: of one message an operation writes Options.LogBurst lines a second, and one more
// with operation and suppressed, the number of those that it stands for. Lines about a lost lease, a
// held key, a stale result, an action without a reservation and a result that is not stored are
// always written, and so is what is for debugging. The counts of the last second
// before the process ends can be missing; metrics count every one.
//
// A line is written before the call goes on, so a handler that blocks holds up the
// call. Those about renewals and lost leases are written behind, up to a thousand
// of them, so that no handler holds up a renewal; what is over that is dropped and
// counted.
//
// # Leases
//
// [NewLeasesHandler] shows on a page, or as JSON, which keys this process holds at this moment, since
// when, whether they are alive and which trace runs the action. It is off unless it is mounted. The
// most endangered come first. How a lease is:
//
//	lost  its loss was reported: another owner may run the action now
//	over  its time is over, and nobody has reported that yet
//	late  less than half of it is left: a renewal is overdue
//	fine  else
//
// The fields of the JSON; times are RFC 3339 in UTC by this process's clock, seconds are numbers
// rounded to milliseconds:
//
//	at                   when the snapshot was taken
//	owner                the label of this process, see guard.WithOwnerLabel
//	total                leases held
//	not_shown            of them, those over the limit of MaxLeases
//	counts               of all leases by state: lost, over, late, fine
//	leases               a list, the most endangered first, of:
//	  operation, key_hash, owner, fence, attempt, state
//	  key                only with ShowKeys
//	  since              when the key was acquired; age_seconds ago
//	  renewed_at         when the last acknowledged reserve or renewal was sent; renewal_age_seconds ago
//	  lease_seconds      how long the lease lives without a renewal
//	  left_seconds       of it, negative when it is over; left_ratio is its share of the lease
//	  dispatched         true if the effect may be out
//	  took_over          true if the key was taken from an owner that is gone; previous_owner is its label
//	  trace_id           of the call, absent without a trace; trace_url only with TraceURL
package telemetry
