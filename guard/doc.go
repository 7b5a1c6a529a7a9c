// Package guard makes an effect happen once per key: a payment, an email, a
// ledger write, wherever something may call twice.
//
//	g, err := guard.New(store)
//	charge, err := guard.NewOperation[Receipt](g, "payment.charge")
//
//	receipt, err := charge.Do(ctx, order.ID, func(ctx context.Context) (Receipt, error) {
//		return provider.Charge(ctx, order)
//	}, guard.WithInput(order))
//
// An operation is a kind of effect, a key names one instance of it, the action
// is the function that has the effect. The first call with a key runs the
// action; every other one gets its result.
//
// # Protocol
//
// The store keeps one record per operation and key, and the call reserves it
// before the action runs, renews it while it runs, and replaces it with the
// result, or releases it when there is none:
//
//		               reserve                    replace
//		   free ──────────────────▶ pending ──────────────────▶ completed
//		    ▲ ▲                     │  │ ▲ │                        │
//		    │ │       release       │  │ └─┘ renew                  │
//		    │ └──── (tombstone) ◀───┘  │                            │
//		    │                          │ lease over: the next       │
//		    │                          ▼ reserve is a takeover      │
//		    └──────────────────── retention over ◀──────────────────┘
//
//	  - Reserve is atomic and decided by the store on its own clock. Every call has
//	    a random owner token, so a repeated command is known as a repeat, and every
//	    acquisition a fence, an integer that only grows.
//	  - Renew comes every third of the lease. A slow action keeps its key; the lease
//	    (default 30 s) is only how long the key of a dead owner stays blocked.
//	  - Replace stores the result for its retention (default 24 h). The renewer is
//	    stopped and joined first, so that no renewal lands on top of a result.
//	  - Release follows an error, a panic or a [runtime.Goexit] of the action: the
//	    key is free and a retry runs. It leaves a tombstone for one lease, so that a
//	    write of the same owner that comes late cannot bring the key back.
//
// Replace and release happen also when the caller's context has ended.
//
// What a call of the store does depends on the record that it finds. The table is
// for authors of stores; who writes an application may skip it. A test holds it to
// the code:
//
//	the key has                          reserve   renew     replace   release    hold
//	nothing                              acquired  restored  restored  tombstone  restored
//	nothing, own lease over              acquired  lost      restored  tombstone  restored
//	own reservation                      acquired  ok        stored    released   held
//	own reservation, lease over          acquired  ok        stored    released   held
//	own, with another's evidence         takeover  ok        stored    held       held
//	own result                           found     lost      settled   refused    refused
//	own tombstone                        found     lost      stale     released   refused
//	own, held                            found     lost      stored    released   again
//	another's reservation                found     lost      stale     refused    refused
//	another's, with own evidence         found     lost      restored  released   refused
//	another's reservation, lease over    takeover  lost      restored  refused    restored
//	another's, dispatched, lease over    held      lost      stale     refused    refused
//	another's, held                      found     lost      stale     refused    refused
//	another's result                     found     lost      stale     refused    refused
//	another's result, retention over     acquired  lost      restored  refused    restored
//	another's tombstone                  acquired  lost      restored  refused    restored
//
// Found, lost, settled, stale and refused change nothing. A record that this version cannot
// read counts as another's reservation that never runs out. A remembered error is a
// result. Dispatched and held records are those of the next section; to a call with a
// recovery hook they are a takeover. Who takes over carries the evidence of the owner
// before; until it has cleared that, the word of that owner settles the key.
//
// # Outcomes that nobody knows
//
// An owner that dies after the card was charged leaves a reservation that runs out,
// and a timeout after the request left is neither success nor failure. By default the
// key is free in both cases and the next call has the effect again. For effects that
// must not happen twice there is more, at no further call of the store:
//
//   - [AtMostOnce]: a run counts as dispatched from its reservation on. What ends it
//     without an answer (a crash, a panic, an error, a result that cannot be stored) leaves
//     the key held, and later calls get [ErrOutcomeUnknown] until somebody settles it.
//   - [WithRecovery]: the same, and the next call first asks a function of yours: is there
//     a charge for this key at the provider? Found, and that is the result; not found, and
//     the action runs; else the key stays held.
//   - [MarkDispatch]: the run counts as dispatched only once its action has called
//     [Dispatched], so a crash before it is safe to repeat.
//   - [OnFailure]: what an error means. Release, nothing happened; [Remember], a definite
//     refusal that later calls get too; [Hold], nobody knows.
//   - [ForPayments]: the preset that makes you choose.
//
// A dispatched run is never released on the strength of an error that the policy does not
// name. The evidence (who may have had the effect, since when, in which trace) goes from
// owner to owner until a result, the hook's word or an operator clears it; the owner in
// question settles the key itself if it still lives. Operators find such keys by
// [Guard.List] and settle them by [Operation.Resolve], on the condition of the fence that
// they saw. What this process itself holds, and how long it will live, is in
// [Guard.Leases].
//
// All this is bounded by what the store keeps: held keys and dispatched reservations live
// for the hold's retention (30 days), results for theirs (24 h). And a request that is
// still on its way when the hook says not found has its effect beside the new run, unless
// the other side refuses its smaller fence: see [RecoveryFunc].
//
// # A key that is in use
//
// A call that finds a result returns it (a hit). A call that finds another owner at work
// (a collision) waits for its result with [Wait], up to the wait bound, and takes the key
// when that owner fails or dies; with [Refuse] it gets an [InProgressError] at once. With
// [WithInput], a call whose input differs from the record's gets [ErrMismatch], in flight
// or not.
//
// # A store that fails
//
//	where                    FailOpen                      FailClosed
//	reserve                  the action runs unguarded     StorageError, the action does not run
//	a waiter's looks         absorbed while the owner that was last seen may live, then as above
//	renew, replace, release  the result is returned        the result is returned
//
// All of it is counted and told to the [Observer]. Each store call has a time
// limit ([WithStoreTimeout]); what comes before the action never outlasts the
// caller's deadline. A result that the store does not take is tried again behind the
// caller, for as long as the lease lasts, and that of a dispatched run for ten leases,
// but no more than 10 minutes; [Guard.Drain] waits for it.
//
// With FailOpen, a reserve whose reply is lost leaves the action unguarded although
// the store may have the reservation: it is not renewed, and another call may run
// beside an action that takes longer than the lease.
//
// # What is not promised
//
// This is not exactly-once delivery to the outside world. By default, an owner that dies
// between the effect and the replace leaves a reservation that runs out, and the
// next call has the effect again. So does one that stands still for a whole lease or
// cannot reach the store that long (it is told: see [Lease.Lost]), and an action that
// returns an error although its request has gone out: an error frees the key. The
// action's context ends with the caller's. A store that loses a reservation (a failover of
// an asynchronously replicated server, an eviction, a flush) can let a second run
// start beside the first; that is seen and told (lost, stale) while the first one
// still runs. If the store loses a completed record, nobody is left to notice.
// Hand the key to the provider as its idempotency key where it takes one.
//
// # Stores
//
// [NewMemoryStore] serves one process and tests; it works in a bubble of
// testing/synctest. Package redisx has the store on Redis. Package storetest has
// the conformance suite for other ones.
package guard
