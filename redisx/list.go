package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
)

// maxScan bounds how many keys one call looks at, so that it never blocks the server
// for long.
const maxScan = 1000

// List is part of [guard.Lister]. It looks at no more than a thousand keys in a call, whoever's
// they are, with SCAN, and reads no results. Of a cluster it walks the primaries one after another,
// and ends with an error at one that is down. An error says when the node that a cursor is of is
// gone: list again from the start then. Records of slots that move to another node in the meantime
// can be missed.
func (s *Store) List(ctx context.Context, req guard.ListRequest) (guard.ListReply, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	page, err := s.list(ctx, req)
	if err != nil {
		return guard.ListReply{}, failure(guard.PhaseList, withContext(ctx, err))
	}
	return page, nil
}

// list keeps to the context as do does.
func (s *Store) list(ctx context.Context, req guard.ListRequest) (guard.ListReply, error) {
	if err := s.usable(ctx); err != nil {
		return guard.ListReply{}, err
	}
	if s.inline {
		return s.page(ctx, req)
	}
	answered := make(chan answer[guard.ListReply], 1)
	go func() {
		var a answer[guard.ListReply]
		defer a.deliver(answered)
		a.value, a.err = s.page(ctx, req)
	}()
	return await(ctx, answered)
}

func (s *Store) page(ctx context.Context, req guard.ListRequest) (guard.ListReply, error) {
	at, err := parseCursor(req.Cursor)
	if err != nil {
		return guard.ListReply{}, err
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return guard.ListReply{}, err
	}
	i, err := at.in(nodes)
	if err != nil {
		return guard.ListReply{}, err
	}
	names, next, err := nodes[i].rdb.Scan(ctx, at.scan, s.pattern(req.Operation), min(max(int64(req.Limit), 1), maxScan)).Result()
	if err != nil {
		return guard.ListReply{}, err
	}
	records, err := s.open(ctx, names)
	if err != nil {
		return guard.ListReply{}, err
	}
	page := guard.ListReply{Records: records}
	switch {
	case next != 0:
		page.Cursor = cursor{node: nodes[i].addr, scan: next}.String()
	case i+1 < len(nodes):
		page.Cursor = cursor{node: nodes[i+1].addr}.String()
	}
	return page, nil
}

// pattern matches the keys of the store, or of one of its operations.
func (s *Store) pattern(operation string) string {
	begin := s.prefix + separator
	if operation != "" {
		begin += escape(operation, keySpecial) + separator
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(begin) + "*"
}

// node is one server with a part of the keys. The address is empty for a client that
// speaks to one only.
type node struct {
	addr string
	rdb  interface {
		Scan(ctx context.Context, cursor uint64, match string, count int64) *redis.ScanCmd
	}
}

// nodes are the servers that share the keys, in an order that stays the same.
func (s *Store) nodes(ctx context.Context) ([]node, error) {
	if _, ok := s.rdb.(*redis.Client); ok {
		return []node{{rdb: s.rdb}}, nil
	}
	// A wrapper of a cluster client that hides this would list one node for all.
	cluster, ok := s.rdb.(interface {
		ForEachMaster(ctx context.Context, do func(context.Context, *redis.Client) error) error
	})
	if !ok {
		return nil, fmt.Errorf("a client of type %T does not say whether it speaks to one server: "+
			"make the store that lists on a *redis.Client or a *redis.ClusterClient", s.rdb)
	}
	var mu sync.Mutex
	var nodes []node
	err := cluster.ForEachMaster(ctx, func(_ context.Context, rdb *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node{addr: rdb.Options().Addr, rdb: rdb})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, errors.New("no node is up")
	}
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.addr, b.addr) })
	return slices.CompactFunc(nodes, func(a, b node) bool { return a.addr == b.addr }), nil
}

// cursor is where a list goes on: SCAN's own cursor, and whose it is.
type cursor struct {
	node string
	scan uint64
}

func (c cursor) String() string {
	text := strconv.FormatUint(c.scan, 10)
	if c.node != "" {
		text += "@" + c.node
	}
	return text
}

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	scan, addr, _ := strings.Cut(text, "@")
	n, err := strconv.ParseUint(scan, 10, 64)
	c := cursor{node: addr, scan: n}
	if err != nil || c.String() != text {
		return cursor{}, fmt.Errorf("cursor %q: not one that List gave; begin with an empty one", text)
	}
	return c, nil
}

// in is the index of the cursor's node.
func (c cursor) in(nodes []node) (int, error) {
	if c == (cursor{}) {
		return 0, nil
	}
	i := slices.IndexFunc(nodes, func(n node) bool { return n.addr == c.node })
	if i < 0 {
		return 0, fmt.Errorf("cursor %q: its node is not among those of this client, or not any more; begin with an empty one", c)
	}
	return i, nil
}

// open reads those of the keys that are records of the store and are open.
func (s *Store) open(ctx context.Context, names []string) ([]guard.Listed, error) {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, ok := parseStorageKey(s.prefix, name)
		return !ok
	})
	var records []guard.Listed
	for len(names) > 0 {
		answers, unknown, err := s.readAll(ctx, names)
		if err != nil {
			return nil, err
		}
		if len(unknown) > 0 {
			// A server that does not know the script learns it with this key. Each round
			// takes at least one key off the list, also if it forgets it every time.
			first, err := eval(ctx, s.rdb, s.scripts.list, unknown[0], nil)
			if err != nil {
				return nil, err
			}
			answers[unknown[0]], unknown = first, unknown[1:]
		}
		for name, answer := range answers {
			records, err = s.appendOpen(records, name, answer)
			if err != nil {
				return nil, err
			}
		}
		names = unknown
	}
	return records, nil
}

// readAll runs the script on all keys in one round trip for each server. Those whose server
// does not know it come back.
func (s *Store) readAll(ctx context.Context, names []string) (answers map[string]reply, unknown []string, err error) {
	pipe := s.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(names))
	for i, name := range names {
		cmds[i] = s.scripts.list.EvalSha(ctx, pipe, []string{name})
	}
	_, _ = pipe.Exec(ctx) // every command has its own error
	answers = make(map[string]reply, len(names))
	for i, name := range names {
		values, err := list(cmds[i])
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			unknown = append(unknown, name)
		case err != nil:
			return nil, nil, err
		default:
			answers[name] = values
		}
	}
	return answers, unknown, nil
}

func (s *Store) appendOpen(records []guard.Listed, name string, answer reply) ([]guard.Listed, error) {
	found, err := answer.integer(0)
	if err != nil || found == 0 {
		return records, err
	}
	rec, left, err := answer.record()
	if err != nil {
		return nil, err
	}
	now, err := answer.integer(3)
	if err != nil {
		return nil, err
	}
	key, _ := parseStorageKey(s.prefix, name)
	return append(records, guard.Listed{Key: key, Record: rec, Left: left, Now: time.UnixMicro(now).UTC()}), nil
}
