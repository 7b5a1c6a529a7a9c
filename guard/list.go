package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// OpenState says why a key of a [Guard.List] is worth a look.
type OpenState string

const (
	// OpenHeld means that nobody knows whether the effect has happened.
	OpenHeld OpenState = "held"
	// OpenAbandoned means that the lease of the owner has run out and nobody has
	// asked for the key since. If the record is dispatched, the next call finds
	// it held or asks the recovery hook; else it runs.
	OpenAbandoned OpenState = "abandoned"
	// OpenRunning means that the owner is at work.
	OpenRunning OpenState = "running"
	// OpenUnreadable means a record of a newer version, or one that is not of onceguard.
	OpenUnreadable OpenState = "unreadable"
)

// OpenKey is a key that is in use without a result.
type OpenKey struct {
	Key     Key    // its name is hashed if the operation has [WithHashedKeys]
	KeyHash string // as spans and logs show it, see [Guard.KeyHash]
	State   OpenState
	Record  Record
	Left    time.Duration // of the lease, or of the hold
	// Age is the time since the effect may have been let out, or since the owner acquired
	// the key if nothing was dispatched, by the store's clock. It is 0 for what cannot be read.
	Age time.Duration

	held time.Duration // since the owner acquired the key
}

// ListQuery says which keys to list.
type ListQuery struct {
	Operation string // of this operation only; of all when empty
	// States are those to list. All when empty.
	States []OpenState
	// RunningFor leaves out the keys whose owners are at work for a shorter time.
	RunningFor time.Duration
	// PageSize is how many records the store looks at in one call. Default 100, at most 10,000.
	PageSize int
}

const (
	defaultPageSize = 100
	maxPageSize     = 10_000
)

// List goes through the keys that are reserved or held, in no order, page by page, while the store
// goes on working. A key that comes or goes meanwhile may be missing, and one may come more than
// once. It ends at the first error: of the query, of the context, an [ErrStorage], or one that says
// that the store lacks the ability, see [Lister].
func (g *Guard) List(ctx context.Context, q ListQuery) iter.Seq2[OpenKey, error] {
	return func(yield func(OpenKey, error) bool) {
		lister, err := g.lister(ctx, &q)
		if err != nil {
			yield(OpenKey{}, fmt.Errorf("onceguard: list: %w", err))
			return
		}
		for cursor := ""; ; {
			page, err := g.page(ctx, lister, ListRequest{Operation: q.Operation, Cursor: cursor, Limit: q.PageSize})
			if err != nil {
				yield(OpenKey{}, err)
				return
			}
			for _, listed := range page.Records {
				if key := g.openKey(listed); q.wants(key) && !yield(key, nil) {
					return
				}
			}
			if cursor = page.Cursor; cursor == "" {
				return
			}
		}
	}
}

func (g *Guard) lister(ctx context.Context, q *ListQuery) (Lister, error) {
	if g == nil || g.store == nil || ctx == nil {
		return nil, errors.New("the guard (made by New) and the context must not be nil")
	}
	if q.PageSize == 0 {
		q.PageSize = defaultPageSize
	}
	faults := []error{within("page size", q.PageSize, 1, maxPageSize)}
	for _, state := range q.States {
		faults = append(faults, oneOf("state", state, OpenHeld, OpenAbandoned, OpenRunning, OpenUnreadable))
	}
	lister, ok := g.store.(Lister)
	if !ok {
		faults = append(faults, fmt.Errorf("the store %s cannot list", storeName(g.store)))
	}
	return lister, errors.Join(faults...)
}

// page asks for one page, with the time limit of a page: it may hold many records.
func (g *Guard) page(ctx context.Context, lister Lister, req ListRequest) (page ListReply, err error) {
	err = outside(ctx, pageTimeout, "list", req.Operation, PhaseList, func(ctx context.Context) (err error) {
		page, err = lister.List(ctx, req)
		return err
	})
	return page, err
}

const pageTimeout = 10 * time.Second

func (g *Guard) openKey(listed Listed) OpenKey {
	key := OpenKey{Key: listed.Key, KeyHash: g.KeyHash(listed.Key), Record: listed.Record, Left: listed.Left}
	switch rec := listed.Record; {
	case rec.Status == StatusHeld:
		key.State = OpenHeld
	case rec.Status != StatusPending:
		key.State = OpenUnreadable
	case listed.Left > 0:
		key.State = OpenRunning
	default:
		key.State = OpenAbandoned
	}
	since := listed.Record.Created
	if d := listed.Record.Dispatch; d != nil {
		since = d.At
	}
	if key.State != OpenUnreadable {
		key.Age = max(listed.Now.Sub(since), 0)
		key.held = max(listed.Now.Sub(listed.Record.Created), 0)
	}
	return key
}

func (q *ListQuery) wants(key OpenKey) bool {
	if key.State == OpenRunning && key.held < q.RunningFor {
		return false
	}
	return len(q.States) == 0 || slices.Contains(q.States, key.State)
}
