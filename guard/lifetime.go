package guard

import "time"

// Lifetimes of the physical record. They are longer than the logical ones
// (Record.Until), so that a missing record always means lost data and a dead
// owner's record can still say whose it was. Stores use them as their expiry.

// PendingLifetime is how long a store keeps a reservation after its last write:
// the lease, and after it the retention or another lease, whichever is longer.
func PendingLifetime(lease, retention time.Duration) time.Duration {
	return lease + max(lease, retention)
}

// CompletedLifetime is how long a store keeps a result after it was written:
// the retention, but at least a lease.
func CompletedLifetime(lease, retention time.Duration) time.Duration {
	return max(lease, retention)
}

// DispatchedLifetime is how long a store keeps a reservation that was dispatched
// after its last write: the lease, and after it the hold's retention or what a
// reservation that was not dispatched is given, whichever is longer.
func DispatchedLifetime(lease, retention, holdRetention time.Duration) time.Duration {
	return lease + max(lease, retention, holdRetention)
}
