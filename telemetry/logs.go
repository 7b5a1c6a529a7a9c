package telemetry

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
)

// logLine is the constant part of a log line.
type logLine struct {
	level   slog.Level
	message string
}

// Messages of the log lines. They are constants: what varies is in attributes.
const (
	msgAcquired      = "onceguard: lease acquired"
	msgTakeover      = "onceguard: key taken over from an owner that is gone"
	msgEnded         = "onceguard: lease ended"
	msgHit           = "onceguard: stored result returned"
	msgRemembered    = "onceguard: remembered error returned"
	msgRecovered     = "onceguard: result of an owner that is gone recovered"
	msgCollision     = "onceguard: key is reserved by another owner"
	msgMismatch      = "onceguard: key was used with another input, the action did not run"
	msgNotCompleted  = "onceguard: completion refused, another owner has the key or it is settled otherwise"
	msgRefused       = "onceguard: call refused, another owner has the key"
	msgUnknown       = "onceguard: outcome of an earlier call unknown, the action did not run"
	msgHeld          = "onceguard: key held, the effect may have happened and somebody must find out"
	msgRenewalFailed = "onceguard: lease renewal failed, the lease goes on until its end"
	msgUnguarded     = "onceguard: action runs without a reservation"
	msgUnstored      = "onceguard: result returned but not stored"
	msgLost          = "onceguard: lease lost while the action runs, another owner may run it too"
	msgStale         = "onceguard: result refused because another owner has the key, the action has probably run twice"
	msgStorageError  = "onceguard: store call failed"
)

// lineOf chooses the line of an event. Those that have none are counted only.
func lineOf(e guard.Event) (logLine, bool) {
	switch e.Kind {
	case guard.EventAcquired:
		if e.Record != nil && e.Record.TookOver != nil {
			return logLine{slog.LevelInfo, msgTakeover}, true
		}
		return logLine{slog.LevelDebug, msgAcquired}, true
	case guard.EventEnded:
		return logLine{slog.LevelDebug, msgEnded}, true
	case guard.EventHit:
		if e.Record != nil && e.Record.Status == guard.StatusFailed {
			return logLine{slog.LevelInfo, msgRemembered}, true
		}
		return logLine{slog.LevelInfo, msgHit}, true
	case guard.EventCollision:
		return logLine{slog.LevelInfo, msgCollision}, true
	case guard.EventMismatch:
		return logLine{slog.LevelWarn, msgMismatch}, true
	case guard.EventUnknown:
		return logLine{slog.LevelWarn, msgUnknown}, true
	case guard.EventUnguarded:
		return logLine{slog.LevelWarn, msgUnguarded}, true
	case guard.EventUnstored:
		return logLine{slog.LevelWarn, msgUnstored}, true
	case guard.EventLost:
		return logLine{slog.LevelError, msgLost}, true
	case guard.EventHeld:
		return logLine{slog.LevelError, msgHeld}, true
	case guard.EventStale:
		return logLine{slog.LevelError, msgStale}, true
	case guard.EventStorageError:
		if e.Phase == guard.PhaseRenew {
			return logLine{slog.LevelWarn, msgRenewalFailed}, true
		}
		return logLine{slog.LevelError, msgStorageError}, true
	case guard.EventActionEnded: // the action's own logs tell
	}
	return logLine{}, false
}

func (c *call) logEvent(ctx context.Context, e guard.Event) {
	if c.op.logger == nil {
		return
	}
	line, ok := lineOf(e)
	if !ok || !c.op.logger.Enabled(ctx, line.level) || !c.op.admits(line) { //nolint:contextcheck // a count belongs to many calls
		return
	}
	attrs := eventAttrs(e)
	if !fromTheRenewer(e) {
		c.write(ctx, line, attrs)
		return
	}
	if !c.op.behind.write(func() { c.write(ctx, line, attrs) }) {
		c.op.series.lineDropped()
	}
}

// fromTheRenewer reports an event that comes while a lease is kept alive.
func fromTheRenewer(e guard.Event) bool {
	return e.Kind == guard.EventLost || e.Kind == guard.EventStorageError && e.Phase == guard.PhaseRenew
}

// logEnd logs a refusal, of a call or of a completion, and a recovery: of the outcomes they are those
// without an event.
func (c *call) logEnd(end guard.CallEnd) {
	var line logLine
	switch {
	case c.op.logger == nil:
		return
	case end.Outcome == guard.OutcomeRefused:
		line = logLine{slog.LevelWarn, msgRefused}
	case end.Outcome == guard.OutcomeRejected && errors.Is(end.Err, guard.ErrStale):
		line = logLine{slog.LevelWarn, msgNotCompleted}
	case end.Outcome == guard.OutcomeRecovered:
		line = logLine{slog.LevelInfo, msgRecovered}
	default:
		return
	}
	ctx := trace.ContextWithSpanContext(context.Background(), c.spanContext)
	if !c.op.logger.Enabled(ctx, line.level) || !c.op.admits(line) {
		return
	}
	attrs := []slog.Attr{slog.String(LogOutcome, string(end.Outcome))}
	if end.Outcome == guard.OutcomeRecovered && c.earlier != nil {
		attrs = append(attrs, dispatcherAttrs(c.earlier.Owner, c.earlier.Fence)...)
	}
	c.write(ctx, line, attrs)
}

// write is the one place where lines leave. No key, argument, result or error
// text is in them: error texts can quote any of those.
func (c *call) write(ctx context.Context, line logLine, attrs []slog.Attr) {
	all := []slog.Attr{
		slog.String(LogOperation, c.op.name),
		slog.String(LogKeyHash, c.info.KeyHash()),
		slog.String(LogOwner, c.info.OwnerLabel),
	}
	if fence := c.fence.Load(); fence != 0 {
		all = append(all, slog.Int64(LogFence, fence))
	}
	if c.spanContext.HasTraceID() {
		all = append(all, slog.String(LogTraceID, c.spanContext.TraceID().String()))
	}
	c.op.logger.LogAttrs(ctx, line.level, line.message, append(all, attrs...)...)
}

// eventAttrs are the attributes of those fields of an event that say something.
func eventAttrs(e guard.Event) []slog.Attr {
	var attrs []slog.Attr
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add(LogReason, e.Reason)
	add(LogPhase, string(e.Phase))
	if e.Class != "" {
		add(LogClass, string(knownClass(e.Class)))
	}
	if e.Err != nil {
		add(LogErrorType, typeName(e.Err))
	}
	if e.Left > 0 && e.Kind == guard.EventCollision { // that of a held record is no lease
		attrs = append(attrs, slog.Duration(LogLeaseLeft, e.Left))
	}
	return append(attrs, recordAttrs(e)...)
}

// recordAttrs tell whose record was found, was taken over, or is held, and who may
// have had the effect.
func recordAttrs(e guard.Event) []slog.Attr {
	r := e.Record
	switch {
	case r == nil:
		return nil
	case e.Kind == guard.EventHit, e.Kind == guard.EventCollision, e.Kind == guard.EventMismatch:
		return holderAttrs(r)
	case e.Kind == guard.EventHeld, e.Kind == guard.EventUnknown:
		return append(holderAttrs(r), dispatcherAttrs(suspect(r))...)
	case e.Kind == guard.EventAcquired && r.TookOver != nil:
		return takeoverAttrs(r)
	default:
		return nil
	}
}

func holderAttrs(r *guard.Record) []slog.Attr {
	return ownerAttrs(r.Owner, r.Fence, LogHolder, LogHolderFence, LogHolderTraceID)
}

func takeoverAttrs(r *guard.Record) []slog.Attr {
	attrs := ownerAttrs(r.TookOver.Owner, r.TookOver.Fence, LogPrevious, LogPreviousFence, LogPreviousTraceID)
	d := evidence(r)
	if d == nil {
		return attrs
	}
	return append(append(attrs, slog.Bool(LogDispatched, true)), dispatcherAttrs(d.Owner, d.Fence)...)
}

func dispatcherAttrs(owner guard.Owner, fence int64) []slog.Attr {
	return ownerAttrs(owner, fence, LogDispatcher, LogDispatcherFence, LogDispatcherTraceID)
}

func ownerAttrs(owner guard.Owner, fence int64, labelKey, fenceKey, traceKey string) []slog.Attr {
	attrs := []slog.Attr{slog.String(labelKey, owner.Label)}
	if fence != 0 { // the store never told it
		attrs = append(attrs, slog.Int64(fenceKey, fence))
	}
	if sc := parseTraceParent(owner.TraceParent); sc.HasTraceID() {
		attrs = append(attrs, slog.String(traceKey, sc.TraceID().String()))
	}
	return attrs
}
