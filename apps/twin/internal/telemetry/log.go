// Package telemetry is how a service is seen from outside: JSON log lines, Prometheus metrics and OTLP traces.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Levels beyond slog's own, so that a reader can tell how a process ended.
const (
	levelTrace = slog.Level(-8)
	levelFatal = slog.Level(12)
	levelPanic = slog.Level(16)
)

// NewLogger writes one JSON object a line to out. level is one of trace, debug, info, warning (or warn) and error.
func NewLogger(out io.Writer, service, level string) *slog.Logger {
	handler := slog.NewJSONHandler(out, &slog.HandlerOptions{Level: parseLevel(level), ReplaceAttr: rename})
	return slog.New(traced{handler}).With("service", service)
}

// Fatal writes the last line of a process that then exits with a status.
func Fatal(log *slog.Logger, message string, args ...any) {
	log.Log(context.Background(), levelFatal, message, args...)
}

// Panic writes a line and unwinds: callers rely on it not returning.
func Panic(log *slog.Logger, message string, err error) {
	log.Log(context.Background(), levelPanic, message, "error", err.Error())
	panic(message + ": " + err.Error())
}

func parseLevel(name string) slog.Level {
	switch strings.ToLower(name) {
	case "trace":
		return levelTrace
	case "debug":
		return slog.LevelDebug
	case "warning", "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

func rename(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return attr
	}
	switch attr.Key {
	case slog.MessageKey:
		attr.Key = "message"
	case slog.LevelKey:
		if level, ok := attr.Value.Any().(slog.Level); ok {
			attr.Value = slog.StringValue(levelName(level))
		}
	}
	return attr
}

func levelName(level slog.Level) string {
	switch {
	case level >= levelPanic:
		return "panic"
	case level >= levelFatal:
		return "fatal"
	case level <= levelTrace:
		return "trace"
	default:
		return strings.ToLower(level.String())
	}
}

// traced adds the ids of the current span, so that a log line leads to its trace.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, record)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }
