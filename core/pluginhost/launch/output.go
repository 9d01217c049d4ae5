package launch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

const (
	// maxLine bounds one line of a plugin's output; the rest of a longer one is dropped.
	maxLine = 16 << 10
	// maxTailLine bounds each line of the tail.
	maxTailLine = 512
	// maxAttrs bounds the attributes of one log record of a plugin.
	maxAttrs = 32
)

// output turns the output of a plugin into log records and keeps the last lines. No output can
// make it fail or grow without bound.
type output struct {
	logger *slog.Logger
	keep   int

	mu   sync.Mutex
	tail []string
	// fatal counts the lines since the Go runtime printed why it ends. The stack that follows
	// must not push that reason out of the tail.
	fatal int
}

// pump reads lines until the end or an error.
func (o *output) pump(r io.Reader) {
	br := bufio.NewReaderSize(r, maxLine)
	for {
		line, long, err := br.ReadLine()
		if len(line) > 0 {
			o.line(line)
		}
		for long && err == nil {
			_, long, err = br.ReadLine()
		}
		if err != nil {
			return
		}
	}
}

// Write takes output that the plugin printed through the connection. It need not end with a
// newline.
func (o *output) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			o.line(line[:min(len(line), maxLine)])
		}
	}
	return len(p), nil
}

func (o *output) line(line []byte) {
	level, msg, attrs, ok := parseRecord(line)
	if !ok {
		msg = printable(string(line))
		level = o.trace(level)
	}
	o.remember(level, msg, attrs)
	o.logger.LogAttrs(context.Background(), level, msg, attrs...)
}

// trace follows a stack trace: all of its lines are errors.
func (o *output) trace(level slog.Level) slog.Level {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fatal > 0 || level == slog.LevelError {
		o.fatal++
		return slog.LevelError
	}
	return level
}

func (o *output) remember(level slog.Level, msg string, attrs []slog.Attr) {
	if level < slog.LevelInfo {
		return
	}
	text := msg
	for _, a := range attrs {
		text += " " + printable(a.String())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fatal > 1 {
		return
	}
	o.tail = append(o.tail, text[:min(len(text), maxTailLine)])
	if len(o.tail) > o.keep {
		o.tail = slices.Delete(o.tail, 0, len(o.tail)-o.keep)
	}
}

func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.tail)
}

// parseRecord reads a line of slog's JSON handler, or of hclog's. ok is false for a plain line.
// Its level is info, or error if the Go runtime printed it.
func parseRecord(line []byte) (level slog.Level, msg string, attrs []slog.Attr, ok bool) {
	var fields map[string]any
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &fields) != nil {
		for _, mark := range []string{"panic: ", "fatal error: "} {
			if bytes.HasPrefix(line, []byte(mark)) {
				return slog.LevelError, "", nil, false
			}
		}
		return slog.LevelInfo, "", nil, false
	}
	for _, names := range [][3]string{{"msg", "level", "time"}, {"@message", "@level", "@timestamp"}} {
		text, isText := fields[names[0]].(string)
		if !isText {
			continue
		}
		if name, isName := fields[names[1]].(string); !isName || level.UnmarshalText([]byte(name)) != nil {
			level = slog.LevelInfo
		}
		for _, n := range names {
			delete(fields, n)
		}
		for _, k := range slices.Sorted(maps.Keys(fields)) {
			if len(attrs) == maxAttrs {
				break
			}
			attrs = append(attrs, slog.Any(printable(k), fields[k]))
		}
		return level, printable(text), attrs, true
	}
	return slog.LevelInfo, "", nil, false
}

// printable keeps a plugin from writing control sequences to the operator's terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// maxPrinted bounds one line of standard output, in bytes. It leaves space for the handshake
// line, which has a certificate, and is below bufio.MaxScanTokenSize.
const maxPrinted = 48 << 10

// lines is a reader whose lines are no longer than maxPrinted: it splits longer ones. Only one
// goroutine may read it.
type lines struct {
	io.ReadCloser
	n int // bytes of the line so far
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	if l.n == maxPrinted && len(p) > 0 {
		p[0], l.n = '\n', 0
		return 1, nil
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), maxPrinted-l.n)])
	if at := bytes.LastIndexByte(p[:n], '\n'); at >= 0 {
		l.n = n - at - 1
	} else {
		l.n += n
	}
	return n, err
}
