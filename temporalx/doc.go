// Package temporalx makes Temporal activities run once per key.
//
// One interceptor on the worker guards every activity, or those that rules
// name. Nothing changes in the activities:
//
//	guarded, err := temporalx.New(g, temporalx.Options{
//		DataConverter: dataConverter, // the client's; converter.GetDefaultDataConverter() if it has none
//		Rules: []temporalx.Rule{{
//			Activity: "ChargeCard",
//			Key:      temporalx.KeyFrom(func(o Order) (string, error) { return o.ID, nil }),
//			Options:  []guard.OperationOption{guard.OnStorageError(guard.FailClosed)},
//		}},
//	})
//	w := worker.New(client, "payments", worker.Options{
//		Interceptors: []interceptor.WorkerInterceptor{guarded},
//	})
//
// Temporal runs an activity at least once: an attempt whose worker died after
// the charge, or that outlived its start-to-close timeout and is still running,
// is followed by another one. With the interceptor the later attempt finds the
// key reserved and waits for the earlier one, or finds its result and returns it.
//
// # Which key
//
// The name of the guard's operation is the activity type. The key is the rule's.
//
// [DefaultKey] is made of namespace, workflow id, run id, activity id and
// activity type. It is the same in all attempts of one activity execution, and
// in nothing else: a workflow that is retried, reset, continued as new or run
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
// A local activity is guarded with the same keys. Its id is only a count
// within the run and could meet that of another activity, so that its default
// key ends in "/local". And what a failed workflow task has run is not in the history, so the
// next try may use the same count for another call: with the default key the
// arguments of a local activity are compared as well.
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
// next attempt. When the activity did not run, its caller gets an application
// error:
//
//	type                   retried  when
//	onceguard.InProgress   yes      another owner has the key; the next attempt comes when
//	                                the lease that is left has run out
//	onceguard.Mismatch     no       the key is in use with other arguments
//	onceguard.Storage      yes      the store failed and the operation fails closed, or a
//	                                stored result cannot be decoded
//	onceguard.InvalidKey   no       no key can be made of the arguments, or it is not valid
//	onceguard.InvalidInput no       the arguments have no JSON form to compare
//
// List a type in NonRetryableErrorTypes of a retry policy to fail the workflow
// instead. Refusals are of the category benign: expected, and not logged as errors by the
// SDK. If the activity is cancelled while it waits for another owner, the SDK
// reports the cancel as it does for any activity.
//
// # What is not covered
//
// Workflow code and Nexus operations are not guarded. These limits will go:
//
//   - An activity that waits for another owner does not heartbeat. With a
//     heartbeat timeout it is timed out and tried again, with guard.Refuse it is not.
//   - An activity that returns activity.ErrResultPending frees its key at
//     once, whoever completes it later: the next attempt or another workflow with
//     the key runs again. Leave such activities out by rules.
//   - A rule that names no registered activity is not noticed.
//   - A dynamic activity is guarded as the type that it is called by. Each type is an
//     operation with metric series of its own, so do not make up types by the thousand.
//
// In the SDK's test environments every workflow has the same id and activities are counted
// from one: give each environment a store of its own.
package temporalx
