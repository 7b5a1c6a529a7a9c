package storetest

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/onceguard/onceguard/guard"
)

// listClauses hold for a store that is a [guard.Lister]. It may have the records of
// others too, so that each clause looks for its own.
func listClauses() []clause {
	return []clause{
		{"reservations are listed, live and expired", func(e *env) {
			operation := e.operation()
			live, dead := e.in(operation), e.in(operation)
			live.acquire(newOwner())
			dead.dies()
			e.wantListed(operation, live, dead)
		}},
		{"dispatched and held records are listed", func(e *env) {
			operation := e.operation()
			dispatched, held, back := e.in(operation), e.in(operation), e.in(operation)
			dispatched.dispatch(newOwner())
			held.held()
			back.held()
			back.releaseHeld(back.recover())
			e.wantListed(operation, dispatched, held, back)
		}},
		{"results, errors and tombstones are not", func(e *env) {
			operation := e.operation()
			e.in(operation).completed()
			e.in(operation).tombstone()
			e.in(operation).failed()
			settled := e.in(operation)
			settled.isSettled(settled.held(), guard.StatusCompleted)
			e.wantListed(operation)
		}},
		{"an operation without records has none", func(e *env) { e.wantListed(e.operation()) }},
		{"an operation is taken literally", func(e *env) {
			operation := e.operation()
			for _, name := range []string{"", "*", "?", "[a-z]", "%", ":", "a", "ab", "a*", "a:", "a:b"} {
				e.in(operation + name).acquire(newOwner())
			}
			for _, name := range []string{"", "*", "?", "[a-z]", "%", ":", "a", "a*", "a:"} {
				if found := e.list(operation+name, 100); len(found) != 1 {
					e.Errorf("%d records of the operation %q, want its own", len(found), operation+name)
				}
			}
		}},
		{"without an operation all are listed", func(e *env) {
			first, second := e.in(e.operation()), e.in(e.operation())
			first.acquire(newOwner())
			second.acquire(newOwner())
			found := e.list("", 100)
			for _, at := range []*env{first, second} {
				if _, ok := found[at.key]; !ok {
					e.Errorf("%q is not listed", at.key)
				}
			}
		}},
		{"pages of one come to an end, and none is left out while others come and go", func(e *env) {
			operation := e.operation()
			var there []*env
			for range 10 {
				at := e.in(operation)
				at.acquire(newOwner())
				there = append(there, at)
			}
			found := e.pages(operation, 1, func() {
				at := e.in(operation)
				at.wantRelease(at.acquire(newOwner()), true)
			})
			for _, at := range there {
				if _, ok := found[at.key]; !ok {
					e.Errorf("%q is not listed", at.key)
				}
			}
		}},
		{"every key comes back as it is", func(e *env) {
			e.lister()
			text := rand.Text()
			keys := trickyKeys(text)
			for _, key := range keys {
				e.at(key).acquire(newOwner())
			}
			found := e.list("", 1000)
			for _, key := range keys {
				if _, ok := found[key]; !ok {
					e.Errorf("%q is not listed", key)
				}
				delete(found, key)
			}
			for key := range found {
				if strings.Contains(key.Operation+key.Name, text) {
					e.Errorf("%q is listed, and is none of the keys", key)
				}
			}
		}},
		{"a cursor that is none is an error or finds nothing", func(e *env) {
			operation := e.operation()
			e.in(operation).acquire(newOwner())
			for _, cursor := range []string{"!", "not a cursor", "0x1", "💳", strings.Repeat("x", 1000)} {
				reply, err := e.lister().List(e.ctx(), guard.ListRequest{Operation: operation, Cursor: cursor, Limit: 10})
				if err == nil && len(reply.Records) != 0 {
					e.Errorf("%d records after the cursor %.20q", len(reply.Records), cursor)
				}
			}
		}},
		{"a look changes nothing", func(e *env) {
			e.dies()
			e.unchanged(func() { e.list(e.key.Operation, 100) })
		}},
		{"a record that cannot be read is listed, as unknown", func(e *env) {
			e.lister()
			e.spoiled()
			if listed := e.list("", 100)[e.key]; listed.Record.Status != guard.StatusUnknown {
				e.Errorf("status %q, want %q", listed.Record.Status, guard.StatusUnknown)
			}
		}},
	}
}

func (e *env) lister() guard.Lister {
	e.Helper()
	lister, ok := e.store.(guard.Lister)
	if !ok {
		e.Skip("the store lists no records")
	}
	return lister
}

// operation is one that no other clause has, for a store that lists records.
func (e *env) operation() string {
	e.Helper()
	e.lister()
	return "storetest." + rand.Text()
}

// in is the same store with a new key of this operation.
func (e *env) in(operation string) *env {
	return e.at(guard.Key{Operation: operation, Name: newKey().Name})
}

// list is all records of an operation, from pages of this size.
func (e *env) list(operation string, limit int) map[guard.Key]guard.Listed {
	e.Helper()
	return e.pages(operation, limit, func() {})
}

// pages is list, with something to do after every page.
func (e *env) pages(operation string, limit int, between func()) map[guard.Key]guard.Listed {
	e.Helper()
	found := map[guard.Key]guard.Listed{}
	req := guard.ListRequest{Operation: operation, Limit: limit}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); between() {
		reply, err := e.lister().List(e.ctx(), req)
		e.check("list", err)
		for _, listed := range reply.Records {
			if operation != "" && listed.Key.Operation != operation {
				e.Errorf("%q is listed for the operation %q", listed.Key, operation)
			}
			found[listed.Key] = listed
		}
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return found
		}
	}
	e.Fatalf("the list has not come to an end within %s", patience)
	return nil
}

// wantListed wants the records of the operation to be these, as they are.
func (e *env) wantListed(operation string, want ...*env) {
	e.Helper()
	found := e.list(operation, 100)
	if len(found) != len(want) {
		e.Errorf("%d records are listed, want %d", len(found), len(want))
	}
	for _, at := range want {
		listed, ok := found[at.key]
		if !ok {
			e.Errorf("%q is not listed", at.key)
			continue
		}
		loaded := at.load()
		e.same(listed.Record, loaded.Record)
		if listed.Left < loaded.Left || listed.Left > loaded.Left+patience {
			e.Errorf("%s left in the list, %s when loaded after it", listed.Left, loaded.Left)
		}
	}
}
