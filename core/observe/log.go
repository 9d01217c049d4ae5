// Package observe makes what operators watch the process with: structured logs now,
// traces later. Metrics live with what they measure.
package observe

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
)

// lost counts for LinesLost.
var lost atomic.Uint64

// LinesLost returns how many lines of this process's logs could not be written, to a full disk for
// example.
func LinesLost() uint64 { return lost.Load() }

// counted counts the lines that w does not take.
type counted struct{ w io.Writer }

func (c counted) Write(line []byte) (int, error) {
	n, err := c.w.Write(line)
	if err != nil {
		lost.Add(1)
	}
	return n, err
}

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
	w = counted{w}
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
