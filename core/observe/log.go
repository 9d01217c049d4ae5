// Package observe makes what operators watch the process with: structured logs now,
// traces later. Metrics live with what they measure.
package observe

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// NewLogger makes a logger that writes to w. level is debug, info, warn or error, format
// is text or json; anything else is an error that names the choices.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	switch strings.ToLower(level) {
	case "debug":
		l = slog.LevelDebug
	case "info", "":
		l = slog.LevelInfo
	case "warn", "warning":
		l = slog.LevelWarn
	case "error":
		l = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q is not debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	switch strings.ToLower(format) {
	case "text", "":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	default:
		return nil, fmt.Errorf("log format %q is not text or json", format)
	}
}
