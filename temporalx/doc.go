// Package temporalx makes Temporal activities run once per key.
//
// A plugin of the worker guards every activity, or those that rules name. Nothing
// changes in the activities:
//
//	plugin, err := temporalx.NewPlugin(g, temporalx.Options{
//		DataConverter: dataConverter, // the client's; converter.GetDefaultDataConverter() if it has none
//		Rules: []temporalx.Rule{{
//			Activity: "ChargeCard",
//			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
//			Options:  []guard.OperationOption{guard.OnStorageError(guard.FailClosed)},
//		}},
//	})
//	w := worker.New(client, "payments", worker.Options{Plugins: []worker.Plugin{plugin}})
//
// The plugin fails the start of a worker that has no activity for a rule, or one of other
// types than the rule's key or recovery hook. [New] makes the bare interceptor, for
// worker.Options.Interceptors and the SDK's test environments, which knows neither. Use one
// of the two.
//
// Temporal runs an activity at least once: an attempt whose worker died after
// the charge, or that outlived its start-to-close timeout and is still running,
// is followed by another one. With the interceptor the later attempt finds the
// key reserved and waits for the earlier one, or finds its result and returns it.
//
// # Rules
//
// A [Rule] names an activity type, or a prefix of types, or is asked by a function. The first
// that is for a type counts, so put the narrower one first. Types in Options.Exclude and types
// without a rule are left alone; without rules all are guarded.
//
// The name of the guard's operation is the activity type, so an activity that is renamed starts
// with no results, unless Rule.Operation has the old name. At most Options.MaxOperations types
// become operations by rules for many; one more is an error for that activity, and never a
// reason to run unguarded. A Rule.Operation for many types is one operation for them all.
//
// # Which key
//
// The key is the one that the workflow has set, or else the rule's. What survives a retry, a
// reset, or a new run is a table in docs/temporal.md.
//
// [DefaultKey] is made of namespace, workflow id, run id, activity id, activity type
// and the time of the scheduling. It is the same in all attempts of one activity
// execution, and in nothing else: a workflow that is retried, reset, continued as new or run
// by a schedule is a new run with new keys, and does its effects again.
//
// [KeyFrom] takes a business key from the activity's first argument, such as
// the number of the order. It is the key to choose for money: whoever charges
// this order, in whichever run and workflow, gets the one result. The key holds
// for all namespaces that share the store, so give each environment a store (a
// key prefix) of its own. All arguments are the call's input: the same
// key with other arguments is a mismatch, not a replay. The comparison is of
// their JSON (of protobuf messages the protobuf JSON), so a field that a later
// release adds to an argument must be left out when it is empty (omitzero), and
// fields that JSON does not show are not compared. Arguments
// that differ on every call, such as a time stamp, do not fit a business key.
//
// [WorkflowKey] is of the workflow id and the activity's own id, over all runs.
//
// [WithKey] in a workflow sets the key of the activities it executes, and
// [WithInheritedKey] that of its child workflows and next runs too; the arguments
// are compared as with a business key. The worker of the workflow needs the plugin as well. In
// an activity, [Key] has the key, for the provider or for a guard.Operation around one call
// of many.
//
// A local activity is guarded with the same keys, but for WorkflowKey. It has no id of its own,
// only a number within the run, and what a failed workflow task has run is not in the history,
// so that the next try may use the count for another call: with the default key the arguments of
// a local activity are compared as well, and one that differs is a mismatch. So its arguments
// must be the same in every try of a workflow task (no random number made in it), and the
// activity must not write to them.
//
// The fingerprint of the arguments of a business key is a SHA-256 that the store
// shows: who can read the store can check a guess of arguments that are easy to
// guess, also where a converter encrypts them in Temporal.
//
// # What the activity's caller gets
//
// A result is stored as the payload that the data converter makes of it, so
// what is encrypted in Temporal is encrypted in the store. A replay undoes the
// converter's codec and passes the payload through, without a detour over Go
// types: integers above 2^53, bytes and protobuf messages come back exactly. An
// interceptor in front of this one sees a [converter.RawValue] then. A data
// converter that does not pass a RawValue through (that of the SDK does, alone
// and under codecs) gets the stored payload handed to the server as it is.
//
// The converter gets the activity's context if it is a [converter.ContextAware],
// but no serialization context: that would bind a result to one workflow.
//
// An error of the activity comes back as it is, and the key is free for the
// next attempt, unless the rule says something else (see below). When the activity did
// not run, its caller gets an application error:
//
//	type                     retried  when
//	onceguard.InProgress     yes      another owner has the key; the next attempt comes when
//	                                  the lease that is left has run out, or soon, if this
//	                                  one has waited
//	onceguard.OutcomeUnknown no       an earlier call may have had the effect, and nobody
//	                                  knows; the details are an [OutcomeUnknown]. Retried only
//	                                  when it is too early to ask the recovery hook, and then
//	                                  when that may be asked
//	onceguard.Mismatch       no       the key is in use with other arguments
//	onceguard.Storage        yes      the store failed and the operation fails closed, or a
//	                                  stored result cannot be decoded
//	onceguard.InvalidKey     no       no key can be made of the arguments, or it is not valid
//	onceguard.InvalidInput   no       the arguments have no JSON form to compare
//	onceguard.NestedCall     no       an activity guarded its own key inside itself
//	onceguard.Canceled       yes      the worker stopped, or the activity was paused or reset, or
//	                                  the attempt's time was over, while it waited
//	onceguard.Draining       yes      the guard of this worker drains
//
// List a type in NonRetryableErrorTypes of a retry policy to fail the workflow
// instead. Refusals are of the category benign: expected, and not logged as errors by the
// SDK. If the activity is cancelled while it waits for another owner, the SDK
// reports the cancel as it does for any activity.
//
// # Waiting
//
// An activity that waits (guard.Wait, the default) holds an activity slot of its worker, and its
// attempt lasts as long as it waits:
//
//   - With a heartbeat timeout it heartbeats, and sends the details of the attempt before
//     again, all of them as they are. If its data converter does not give them raw, it is
//     refused in place of waiting. The activity itself runs when the last of these heartbeats
//     is over.
//   - It is woken at once when the worker stops, and by its next heartbeat when it is canceled,
//     paused or reset. A cancel is the SDK's to report, the others are [TypeCanceled], with the
//     cause.
//   - It never waits into the server's timeout. When Options.WaitMargin of its time is left, or
//     the wait bound of the operation has passed, it fails with [TypeInProgress] and is tried
//     again as its retry policy says.
//   - At most Options.MaxWaiting activities of a worker wait. One more is refused as with
//     guard.Refuse.
//
// With guard.Refuse it fails with [TypeInProgress] at once, frees its slot, and comes back when
// the lease that is left has run out, or up to a fifth later. docs/temporal.md says when to
// choose which. When an owner dies, its key is blocked for a lease: leave the attempts
// unlimited, or keep the lease under start-to-close timeout × (maximum attempts − 1).
//
// With bounded attempts a duplicate that waits fails its workflow although the owner is well,
// when that needs longer than all of the waits.
//
// # Completing later
//
// An activity that returns activity.ErrResultPending keeps its key until the deadline of the
// attempt, and others wait or are refused as with any owner. It hands out what
// [CompletionToken] returns, and whoever has the answer calls [Interceptor.CompleteActivity],
// or [Interceptor.CompleteActivityByID] without a token, which complete the record first and
// the activity second. The interceptor is [Plugin.Interceptor], and in another process that of
// [New] with the same rules. Completed by the client's own methods alone, the workflow has its
// result and the store has none: the key stays reserved until the deadline, and is free then. A
// later attempt of the same activity takes the key over at once, as one that may have had the
// effect: it runs again, or under guard.AtMostOnce or a recovery hook finds the outcome
// unknown.
//
// # Stopping
//
// Stop the worker, drain the guard ([guard.Guard.Drain]), and close the client of the store, in
// this order. What the store has not taken yet is lost without the second; with that before the
// first, activities fail with [TypeDraining].
//
// # Attempts that time out
//
// An activity whose attempt times out while it runs is canceled in its context. If it
// heeds that and returns an error although its request has gone out, the guard frees
// the key by default, and the next attempt sends it again: Temporal's timeouts do not
// take an effect back. For money, read on.
//
// # Outcomes that nobody knows
//
// The options of package guard for them go into a rule:
//
//	temporalx.Rule{
//		Activity: "ChargeCard",
//		Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
//		Options:  []guard.OperationOption{guard.ForPayments(), guard.OnFailure(policy)},
//		Recovery: temporalx.RecoverWith(askTheProvider), // or guard.AtMostOnce() among the options
//	}
//
// An attempt that dies, times out, panics or fails in a way that the policy does not
// know leaves the key held then. The next attempt asks the recovery hook, see
// [RecoverWith], or else fails with [TypeOutcomeUnknown], and Temporal stops trying:
// it is for the workflow to branch. It reconciles by an activity of its own, which
// finds out and calls [Interceptor.Resolve], and then calls the guarded activity once
// more:
//
//	err := workflow.ExecuteActivity(ctx, "ChargeCard", order).Get(ctx, &receipt)
//	var app *temporal.ApplicationError
//	if errors.As(err, &app) && app.Type() == temporalx.TypeOutcomeUnknown {
//		var unknown temporalx.OutcomeUnknown
//		if err := app.Details(&unknown); err != nil {
//			return err
//		}
//		if err := workflow.ExecuteActivity(ctx, "Reconcile", unknown).Get(ctx, nil); err != nil {
//			return err
//		}
//		err = workflow.ExecuteActivity(ctx, "ChargeCard", order).Get(ctx, &receipt)
//	}
//
// In an activity guard.FenceFromContext has the fence for the provider, and
// guard.Dispatched marks the dispatch for guard.MarkDispatch.
//
// An error that the policy remembers (guard.Remember) is stored as the failure that
// Temporal would have of it, in the form of the data converter: encrypted, message and
// all, if that encrypts. As in the SDK, the converter of errors does not get the
// activity's context. Later calls with the key get it as the application error that
// it was, with type, message, details, category, next retry delay and causes. It is
// retried if it was: let a policy remember what is not. [RememberNonRetryable] is a
// ready one. Nothing is remembered by default, since "do not try this again" is not
// yet "this is the answer for a day". An interceptor in front of this one sees the
// details of a replay as [converter.RawValue], unless [Options] have the client's
// failure converter; with that, a codec that binds payloads to a serialization context
// does not read them.
//
// # What is not covered
//
// Workflow code and Nexus operations are not guarded. These limits will go:
//
//   - A data converter that fails to encode a result after the effect leaves nothing to
//     store, and nothing for Temporal: the activity runs again, unless the rule has
//     guard.AtMostOnce or a hook.
//   - A dynamic activity with KeyFrom needs a data converter that passes RawValues.
//   - Without a rule that names its activity or its operation, an operation, and its metric
//     series, is made at the first call of the activity type: a first error can then be missed
//     by increase(). With such a rule it is made by New.
//   - A dynamic activity is guarded as the type that it is called by. Each type is an
//     operation with metric series of its own, up to Options.MaxOperations: give a rule for
//     many an Operation.
//   - A local activity that is called by its function is guarded under the function's name,
//     not under the one that it is registered with.
//
// In the SDK's test environments every workflow has the same id and activities are counted
// from one: give each environment a store of its own.
package temporalx
