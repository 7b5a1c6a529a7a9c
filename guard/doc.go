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
// What a call of the store does depends on the record that it finds. A test holds
// this table to the code:
//
//	the key has                          reserve   renew     replace   release
//	nothing                              acquired  restored  restored  tombstone
//	nothing, own lease over              acquired  lost      restored  tombstone
//	own reservation                      acquired  ok        stored    released
//	own reservation, lease over          acquired  ok        stored    released
//	own result                           found     lost      stored    refused
//	own tombstone                        found     lost      stale     released
//	another's reservation                found     lost      stale     refused
//	another's reservation, lease over    takeover  lost      restored  refused
//	another's result                     found     lost      stale     refused
//	another's result, retention over     acquired  lost      restored  refused
//	another's tombstone                  acquired  lost      restored  refused
//
// Found, lost, stale and refused change nothing. A record that this version cannot
// read counts as another's reservation that never runs out.
//
// # A key that is in use
//
// A call that finds a result returns it (a hit). A call that finds another owner
// at work (a collision) waits for its result with [Wait], up to the wait bound, and
// takes the key when that owner fails or dies; with [Refuse] it gets an [InProgressError] at once.
// With [WithInput], a call whose input differs from the record's gets
// [ErrMismatch], in flight or not.
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
// caller, for as long as the lease lasts; [Guard.Drain] waits for it.
//
// With FailOpen, a reserve whose reply is lost leaves the action unguarded although
// the store may have the reservation: it is not renewed, and another call may run
// beside an action that takes longer than the lease.
//
// # What is not promised
//
// This is not exactly-once delivery to the outside world. An owner that dies
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
