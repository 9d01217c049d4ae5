package access

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
)

// open returns the log of the audit, nil for none.
func open(setting string, log *slog.Logger) *slog.Logger {
	switch setting {
	case "off":
		return nil
	case "", "log":
		return log.With("logger", "audit")
	}
	return slog.New(slog.NewJSONHandler(&file{path: setting, log: log}, nil))
}

// file appends lines to a file. It opens it for each, so that the file may be moved away at any time;
// they are few.
type file struct {
	path string
	log  *slog.Logger
	mu   sync.Mutex
	bad  bool
}

var _ io.Writer = (*file)(nil)

// Write appends a line. A file that cannot be written to is an error in the log of the process, once until it
// can be written to again; the line is in that log then.
func (f *file) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = out.Write(line)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		if !f.bad {
			f.log.Error("the audit cannot be written to its file; its lines are here", "setting", "security.audit", "error", err)
		}
		f.log.Warn("audit", "line", string(line))
	}
	f.bad = err != nil
	return len(line), err
}

// attrsOf returns the attributes that name the caller.
func attrsOf(p *Peer) []slog.Attr {
	if p == nil {
		return []slog.Attr{slog.String("who", "this process")}
	}
	if !p.known {
		return []slog.Attr{slog.String("who", p.Remote)}
	}
	attrs := []slog.Attr{slog.String("who", p.Identity.String()), slog.String("trust", p.Identity.Trust), slog.String("door", string(p.Door)), slog.String("remote", p.Remote)}
	if p.tenant != "" {
		attrs = append(attrs, slog.String("tenant", p.tenant))
	}
	return attrs
}
