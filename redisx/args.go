package redisx

import (
	"bytes"
	"fmt"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// claimOf is the record as its owner last saw it, as the scripts take it.
func claimOf(rec guard.Record) ([]any, error) {
	fences := []int64{rec.Fence, int64(rec.Attempt)}
	if rec.TookOver != nil {
		fences = append(fences, rec.TookOver.Fence)
	}
	if rec.Kept != nil {
		fences = append(fences, rec.Kept.Number)
	}
	if rec.Dispatch != nil {
		fences = append(fences, rec.Dispatch.Fence)
	}
	if err := exact(fences...); err != nil {
		return nil, err
	}
	return []any{escape(rec.Owner.Token, ""), details(rec), rec.Fence, rec.Attempt, epoch(rec.Created)}, nil
}

// exact keeps to what a Lua number holds exactly.
func exact(numbers ...int64) error {
	for _, n := range numbers {
		if n < 0 || n > maxExact {
			return fmt.Errorf("fence, attempt or turn %d: not between 0 and %d", n, int64(maxExact))
		}
	}
	return nil
}

func pendingLife(lease, retention time.Duration) int64 {
	return inMilliseconds(capped(guard.PendingLifetime(lease, retention)))
}

func completedLife(lease, retention time.Duration) int64 {
	return inMilliseconds(guard.CompletedLifetime(lease, retention))
}

// dispatchedLife is 0, which is the life of a reservation that is not dispatched, for
// an operation that holds nothing: a number as small as that costs no allocation.
func dispatchedLife(lease, retention, holdRetention time.Duration) int64 {
	if holdRetention <= 0 {
		return 0
	}
	return inMilliseconds(capped(guard.DispatchedLifetime(lease, retention, holdRetention)))
}

// flag is empty, which costs no allocation either, when it is not set.
func flag(set bool) string {
	if set {
		return "1"
	}
	return ""
}

// bytes are a result as the client takes it: a copy if the command can outlive the
// call, and never nil, which go-redis refuses.
func (s *Store) bytes(result []byte) []byte {
	if !s.inline {
		result = bytes.Clone(result)
	}
	if result == nil {
		result = []byte{}
	}
	return result
}
