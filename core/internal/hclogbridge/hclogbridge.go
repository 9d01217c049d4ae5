// Package hclogbridge sends the log of a library that uses hclog to slog.
package hclogbridge

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// New returns an hclog logger whose records go to l, at levels of at most ceiling: what is an
// error to a library is often a mere detail to its user. The logger is safe for concurrent use.
func New(l *slog.Logger, ceiling slog.Level) hclog.Logger {
	bridge := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Off})
	bridge.RegisterSink(sink{logger: l, ceiling: ceiling})
	return bridge
}

type sink struct {
	logger  *slog.Logger
	ceiling slog.Level
}

// Accept implements hclog.SinkAdapter.
func (s sink) Accept(name string, level hclog.Level, msg string, args ...any) {
	at := min(Level(level), s.ceiling)
	if !s.logger.Enabled(context.Background(), at) {
		return
	}
	attrs := make([]slog.Attr, 0, len(args)/2+1)
	if name != "" {
		attrs = append(attrs, slog.String("logger", name))
	}
	for i := 0; i+1 < len(args); i += 2 {
		attrs = append(attrs, slog.Any(fmt.Sprint(args[i]), args[i+1]))
	}
	s.logger.LogAttrs(context.Background(), at, msg, attrs...)
}

// Level translates a level. An unknown level becomes info.
func Level(l hclog.Level) slog.Level {
	switch l {
	case hclog.Trace:
		return slog.LevelDebug - 4
	case hclog.Debug:
		return slog.LevelDebug
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
