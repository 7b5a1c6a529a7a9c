package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/onceguard/onceguard/telemetry"
)

// liveLog is a slog handler that makes one short line of each record, for people
// who watch: the message, and of the attributes those that tell owners and
// leases apart.
type liveLog struct{ level slog.Level }

func (h liveLog) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h liveLog) Handle(ctx context.Context, r slog.Record) error {
	var details []string
	r.Attrs(func(a slog.Attr) bool {
		if label, ok := liveLabel(a.Key); ok {
			details = append(details, label+" "+liveValue(a.Value))
		}
		return true
	})
	text := strings.TrimPrefix(r.Message, "onceguard: ")
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	say(ctx, "guard: "+text)
	return nil
}

// WithAttrs is not used by onceguard's telemetry.
func (h liveLog) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup is not used by onceguard's telemetry.
func (h liveLog) WithGroup(string) slog.Handler { return h }

// liveLabel leaves out what is the same on every line, or only for machines.
func liveLabel(key string) (label string, ok bool) {
	switch key {
	case telemetry.LogFence, telemetry.LogHolderFence:
		return "fence", true
	case telemetry.LogHolder:
		return "owner", true
	case telemetry.LogLeaseLeft:
		return "lease left", true
	case telemetry.LogPrevious:
		return "previous owner", true
	case telemetry.LogDispatcher:
		return "sent by", true
	case telemetry.LogPhase, telemetry.LogClass, telemetry.LogReason, telemetry.LogErrorType:
		return key, true
	default:
		return "", false
	}
}

func liveValue(v slog.Value) string {
	if v.Kind() == slog.KindDuration {
		return v.Duration().Round(10 * time.Millisecond).String()
	}
	return v.String()
}
