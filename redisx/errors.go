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

// classifyServer looks for a code anywhere in the message: an error inside a
// script comes wrapped in the script's own, differently from version to version.
func classifyServer(message string) guard.ErrorClass {
	for word := range strings.FieldsFuncSeq(message, notInCode) {
		if class := classOfCode(word); class != "" {
			return class
		}
	}
	switch {
	case strings.Contains(message, "max number of clients reached"):
		return guard.ClassConnection
	case strings.Contains(message, "unauthenticated"), // long commands of a client that has not logged in
		strings.Contains(message, "can't run this command"), // in a script that the user may run
		strings.Contains(message, "can't access at least one of the keys"):
		return guard.ClassAuth
	default:
		return guard.ClassOther
	}
}

func notInCode(r rune) bool { return (r < 'A' || r > 'Z') && r != '_' }

// classOfCode knows the words that begin a server's errors.
func classOfCode(word string) guard.ErrorClass {
	switch word {
	case "READONLY",
		"NOREPLICAS", // the primary takes no writes without its replicas
		"MISCONF":    // the primary takes no writes that it cannot save
		return guard.ClassReadOnly
	case "OOM":
		return guard.ClassOutOfMemory
	case "CLUSTERDOWN", "CROSSSLOT", "TRYAGAIN", "MOVED", "ASK":
		return guard.ClassCluster
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return guard.ClassAuth
	case "LOADING", // up, but does not serve yet
		"MASTERDOWN": // a replica that does not serve without its primary
		return guard.ClassConnection
	default:
		return ""
	}
}
