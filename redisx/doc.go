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
// on cluster and ring clients, whose routing looks past the context, a method
// runs its command in a goroutine and leaves it behind when the context ends;
// that goroutine ends with go-redis's own time limits (ReadTimeout, 3 s).
//
// Set redis.Options.DialerRetries to 1 as well: by default go-redis dials five times
// before it says that nobody listens, and a server that is down then looks like
// one that is slow.
//
// A context that is canceled before its deadline ends a call at once, but for a
// read that is under way on a client with ContextTimeoutEnabled: that one goes
// on until the reply or the deadline.
//
// # Lost replies
//
// go-redis sends a command again when its reply was lost (MaxRetries, 3). That
// is harmless: every script knows its caller by the owner token, and the second
// run of it replies as the first did.
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
// The status is pending (a reservation), completed or released (a tombstone).
// Times are microseconds since 1970 on the server's clock: until_us is the end
// of the lease, of the retention or of the tombstone, created_us when the owner
// acquired the key, updated_us the last write. The prev_ lines are there after a
// takeover. In values, '%' and control characters are percent-escaped (and ':'
// in the algorithm of the fingerprint). The key's own expiry is longer than
// until_us for a reservation, so that a takeover can say from whom.
//
// A record that does not read so, such as one of a newer version, counts as in
// flight: nobody acquires its key and nothing writes over it.
package redisx
