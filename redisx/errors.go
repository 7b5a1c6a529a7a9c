package redisx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
)

// failure names the phase that failed and classifies the cause.
func failure(phase guard.Phase, err error) error {
	return &guard.ClassifiedError{
		Class: classify(err),
		Err:   fmt.Errorf("onceguard: redis: %s: %w", phase, err),
	}
}

// withContext makes an error that came of the context's end match the context's
// own error: go-redis reports a deadline as a network timeout.
func withContext(ctx context.Context, err error) error {
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && ended == nil && !time.Now().Before(deadline) {
		ended = context.DeadlineExceeded
	}
	if ended == nil || errors.Is(err, ended) || isServer(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ended, err)
}

func classify(err error) guard.ErrorClass {
	switch {
	case errors.Is(err, errReply):
		return guard.ClassEncoding
	case isServer(err):
		return classifyServer(err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout), isNetTimeout(err):
		return guard.ClassTimeout
	case isConnection(err):
		return guard.ClassConnection
	default:
		return guard.ClassOther
	}
}

// isServer says whether the server itself replied with this error.
func isServer(err error) bool {
	var server redis.Error
	return errors.As(err, &server)
}

func isNetTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func isConnection(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolExhausted)
}

// codes are the words by which a server's error is known. They are looked for
// anywhere in the message: an error inside a script comes wrapped in the script's
// own, differently from version to version.
var codes = []struct {
	word  string
	class guard.ErrorClass
}{
	{"READONLY", guard.ClassReadOnly},
	{"NOREPLICAS", guard.ClassReadOnly}, // the primary takes no writes without its replicas
	{"MISCONF", guard.ClassReadOnly},    // the primary takes no writes that it cannot save
	{"OOM", guard.ClassOutOfMemory},
	{"CLUSTERDOWN", guard.ClassCluster},
	{"CROSSSLOT", guard.ClassCluster},
	{"TRYAGAIN", guard.ClassCluster},
	{"MOVED", guard.ClassCluster},
	{"ASK", guard.ClassCluster},
	{"NOAUTH", guard.ClassAuth},
	{"WRONGPASS", guard.ClassAuth},
	{"NOPERM", guard.ClassAuth},
	{"LOADING", guard.ClassConnection},    // up, but does not serve yet
	{"MASTERDOWN", guard.ClassConnection}, // a replica that does not serve without its primary
}

// phrases are errors that have no code of their own.
var phrases = []struct {
	text  string
	class guard.ErrorClass
}{
	{"max number of clients reached", guard.ClassConnection},
	{"can't run this command", guard.ClassAuth}, // the user may run scripts, but not what is in this one
	{"can't access at least one of the keys", guard.ClassAuth},
}

func classifyServer(message string) guard.ErrorClass {
	words := strings.FieldsFunc(message, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '_' })
	for _, code := range codes {
		for _, word := range words {
			if word == code.word {
				return code.class
			}
		}
	}
	for _, phrase := range phrases {
		if strings.Contains(message, phrase.text) {
			return phrase.class
		}
	}
	return guard.ClassOther
}
