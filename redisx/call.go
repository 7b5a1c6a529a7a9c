package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
)

// DefaultTimeout bounds a call whose context has no deadline. The guard's own
// calls have one: its store timeout.
const DefaultTimeout = 5 * time.Second

// run runs a script on the record of a key within the context. Errors name the
// phase and carry a class.
func (s *Store) run(
	ctx context.Context, phase guard.Phase, script *redis.Script, key guard.Key, args ...any,
) (reply, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	values, err := s.do(ctx, script, storageKey(s.prefix, key), args)
	if err != nil {
		return nil, failure(phase, withContext(ctx, err))
	}
	return values, nil
}

// bounded is a context with a deadline.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// usable says why a call can do nothing.
func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.rdb == nil {
		return errors.New("the store has no client: make it with redisx.New")
	}
	return nil
}

// do runs the script on this goroutine if the client itself keeps to the
// context, else on one that is left behind when the context ends.
func (s *Store) do(ctx context.Context, script *redis.Script, key string, args []any) (reply, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if s.inline {
		return eval(ctx, s.rdb, script, key, args)
	}
	answered := make(chan answer[reply], 1)
	go func() {
		var a answer[reply]
		defer a.deliver(answered)
		a.value, a.err = eval(ctx, s.rdb, script, key, args)
	}()
	return await(ctx, answered)
}

// answer is what a call on another goroutine came to.
type answer[T any] struct {
	value T
	err   error
}

// deliver is for a defer: a panic, of a hook of the client, say, is an error.
func (a *answer[T]) deliver(answered chan<- answer[T]) {
	if p := recover(); p != nil {
		a.err = fmt.Errorf("panic: %v", p)
	}
	answered <- *a
}

func await[T any](ctx context.Context, answered <-chan answer[T]) (T, error) {
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func eval(ctx context.Context, rdb redis.Scripter, script *redis.Script, key string, args []any) (reply, error) {
	return list(script.Run(ctx, rdb, []string{key}, args...))
}

// list is what the script sent: each sends a list.
func list(cmd *redis.Cmd) (reply, error) {
	value, err := cmd.Result()
	if err != nil {
		return nil, err
	}
	values, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%w: %T, not a list", errReply, value)
	}
	return values, nil
}

// errReply is a reply that is not what the script sends.
var errReply = errors.New("unexpected reply")

// reply is the list that a script sends.
type reply []any

func (r reply) integer(i int) (int64, error) {
	if i < len(r) {
		if n, ok := r[i].(int64); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: no integer at %d of %d", errReply, i, len(r))
}

func (r reply) text(i int) (string, error) {
	if i < len(r) {
		if s, ok := r[i].(string); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("%w: no string at %d of %d", errReply, i, len(r))
}

// word is a text that must be one of the given.
func (r reply) word(i int, known ...string) (string, error) {
	word, err := r.text(i)
	if err != nil {
		return "", err
	}
	if !slices.Contains(known, word) {
		return "", fmt.Errorf("%w: %q", errReply, word)
	}
	return word, nil
}

// record is the time left and the record that follow a flag.
func (r reply) record() (guard.Record, time.Duration, error) {
	left, err := r.integer(1)
	if err != nil {
		return guard.Record{}, 0, err
	}
	raw, err := r.text(2)
	if err != nil {
		return guard.Record{}, 0, err
	}
	return parseRecord(raw), microseconds(left), nil
}
