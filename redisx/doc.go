// Package redisx is a [guard.Store] on Redis, 6.2 or newer.
//
//	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
//	store, err := redisx.New(rdb, redisx.Options{})
//	g, err := guard.New(store)
//
// Each step of the protocol is one Lua script that touches one key, on the
// server's clock. A call that runs its action costs two round trips (reserve,
// replace) and one per renewal; a call that finds a result costs one.
//
// # Time limits
//
// Every method returns by the deadline of its context, also against a server
// that accepts connections and never answers; a context without a deadline gets
// one of [DefaultTimeout]. go-redis bounds its reads and writes by the context
// only when redis.Options.ContextTimeoutEnabled is set: set it. Without it, and
// on cluster clients, whose routing looks past the context, a method
// runs its command in a goroutine and leaves it behind when the context ends;
// that goroutine ends with go-redis's own time limits (ReadTimeout, 3 s).
//
// Set redis.Options.DialerRetries to 1 as well: by default go-redis dials five times
// before it says that nobody listens, and the time limit of a guard's call (1 s) ends before:
// a server that is down is a timeout then, of the class timeout and not connection, in logs and
// metrics. Each dial that fails is a line on standard error by go-redis itself;
// redis.SetLogger has it elsewhere.
//
// A context that is canceled before its deadline ends a call at once, but for a
// read that is under way on a client with ContextTimeoutEnabled: that one goes
// on until the reply or the deadline.
//
// # The server
//
// What is promised holds for as long as Redis keeps the records. Out of the box it does not
// keep them:
//
//   - appendonly yes. The default is no, with snapshots an hour apart, or sooner after 100
//     writes: a crash loses what came after the last one. Without snapshots, too, a restart
//     frees every key.
//   - appendfsync everysec (the default) or always. With everysec a power failure loses about a
//     second of writes, and a killed process next to none; with always it loses none that was
//     acknowledged; with no, what the kernel has not written, half a minute or so. Leave
//     no-appendfsync-on-rewrite at no: with yes, a rewrite of the log is a time of appendfsync
//     no.
//   - maxmemory-policy noeviction. It is the default, but not with every host. Every record has
//     an expiry, so the volatile policies evict it as the allkeys ones do.
//   - min-replicas-to-write 1 and min-replicas-max-lag of a few seconds, if there are replicas.
//     A master that has lost them then takes no writes, which bounds what a failover loses to
//     that lag.
//
// A server that is full under noeviction, or misses its replicas, refuses to reserve. That is a
// storage error, and under guard.FailOpen, the default, the action runs unguarded.
//
// Replication is asynchronous. A failover loses what the new master has not received, and a
// master that is cut off takes writes until it learns of the new one: for that time two owners
// may have one key. The store sends no WAIT: such a loss would be rarer with it and not
// impossible, since Redis is no strongly consistent store with WAIT either. Give the key to the
// other side as its idempotency key where it takes one; a fence that it checks refuses what
// comes late of the owner before.
//
// A reservation that is lost comes back by the next renewal of its owner, if that lives and
// nobody has taken the key. A result or a held key that is lost is gone, and the next call
// runs.
//
// # Lost replies
//
// go-redis sends a command again when its reply was lost (MaxRetries, 3). That
// is harmless: every script knows its caller by the owner token, and the second
// run of it replies as the first did. Where it cannot, since the first run has made
// the record held or another's, it changes nothing and says what there is: a reserve
// finds the record that it made held, and a release nothing more to release.
//
// # Keys
//
// A record's key is prefix:operation:name, where '%', ':', '{', '}' and control
// characters of the operation and the name are percent-escaped. So two records
// never share a key and a user's input never picks a cluster slot. No key is
// ever without an expiry.
//
// # Records
//
// A record is one string: a header of lines, an empty line, the bytes of the
// result.
//
//	onceguard/1 completed
//	owner=5f0c9e6ad2b14c0c8f6f9b0a1d2e3f40
//	fence=1767225600000000
//	attempt=2
//	until_us=1767312005000000
//	created_us=1767225600000000
//	updated_us=1767225605000000
//	label=pay-7c9f/1 worker@pay-7c9f
//	traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//	fingerprint=sha256-json:9f86d081884c7d65
//	prev_owner=77d3b1f0c2a94e5b8a6d0e1f2a3b4c5d
//	prev_fence=1767225570000000
//	prev_label=pay-5d2a/1 worker@pay-5d2a
//	prev_traceparent=
//	encoding=json
//
//	{"charge":"ch_1"}
//
// The fields:
//
//	status            pending (a reservation), completed, failed (the result is an error that
//	                  is remembered), held (nobody knows what became of it) or released (a
//	                  tombstone)
//	owner             the token of the owner; of a held record, of who may settle it
//	fence, attempt    of the acquisition
//	until_us          the end of the lease, of the retention, of the hold or of the tombstone
//	created_us        when the owner acquired the key
//	updated_us        the last write of the owner, or of who settled the record
//	label             of the owner
//	traceparent       of the owner's call
//	fingerprint       of the input: algorithm:digest
//	prev_owner        whom the owner took over from, after a takeover, with prev_fence,
//	                  prev_label and prev_traceparent
//	dispatch_owner    who may have had the effect, of a pending or held record that was
//	                  dispatched, with dispatch_fence, dispatch_us (since when), dispatch_label
//	                  and dispatch_traceparent
//	resolved_owner    who settled the record in its owner's stead, with resolved_label and
//	                  resolved_traceparent
//	encoding          of the result
//
// Times are microseconds since 1970 on the server's clock. In values, '%' and control
// characters are percent-escaped (and ':' in the algorithm of the fingerprint). The
// blocks prev_, dispatch_ and resolved_ are there whole or not at all. A held record
// always has the dispatch_ lines:
//
//	onceguard/1 held
//	owner=5f0c9e6ad2b14c0c8f6f9b0a1d2e3f40
//	...
//	fingerprint=sha256-json:9f86d081884c7d65
//	dispatch_owner=5f0c9e6ad2b14c0c8f6f9b0a1d2e3f40
//	dispatch_fence=1767225600000000
//	dispatch_us=1767225600000000
//	dispatch_label=pay-7c9f/1 worker@pay-7c9f
//	dispatch_traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//	encoding=
//
// A record that does not read so, such as one of a newer version, counts as in
// flight: nobody acquires its key and nothing writes over it.
//
// # Lifetimes
//
// Every key has an expiry. That of a reservation is longer than until_us, so that a
// takeover can say from whom. A record that is dispatched or held lives at least the
// hold's retention ([guard.WithHoldRetention]) after the last write of its owner: it is
// the only word that the effect may have happened, and once it is gone, the key is
// free. A server that evicts keys or loses them sooner breaks that promise.
//
// # Lists
//
// [Store.List] goes through the keys with SCAN and reads the records in pipelines, a
// page at a time. It looks at all keys of the database, also at those of others, so
// that a store in a database of its own lists faster. A user of the server needs the
// permission to run SCAN for it.
package redisx
