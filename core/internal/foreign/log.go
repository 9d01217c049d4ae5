package foreign

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	// quiet is how long further connections of the same host and protocol are only counted.
	quiet = time.Minute
	// maxHosts bounds the pairs of host and protocol that a Log remembers.
	maxHosts = 256
)

// Log writes warnings for clients that call a port by mistake: one line a minute for each host and
// protocol, with the number of connections since the last line. It is safe for concurrent use.
type Log struct {
	log   *slog.Logger
	port  string
	hints map[Protocol]string

	mu   sync.Mutex
	seen map[caller]*calls
}

type caller struct {
	host     string
	protocol Protocol
}

type calls struct {
	told time.Time
	more int // since then
}

// NewLog makes a log of a port. port is its name in the line, for example "the master's RPC
// port"; hints say what to do about a protocol.
func NewLog(log *slog.Logger, port string, hints map[Protocol]string) *Log {
	return &Log{log: log, port: port, hints: hints, seen: map[caller]*calls{}}
}

// Report notes a client with its first bytes.
func (l *Log) Report(remote net.Addr, p Protocol, first []byte) {
	more, tell := l.count(remote, p, time.Now())
	if !tell {
		return
	}
	text := client(p) + " called " + l.port + " and was turned away"
	if hint := l.hints[p]; hint != "" {
		text += ": " + hint
	}
	attrs := []slog.Attr{slog.String("remote", remote.String())}
	if shown := Show(p, first); shown != "" {
		attrs = append(attrs, slog.String("first", shown))
	}
	if more > 0 {
		attrs = append(attrs, slog.Int("more_since_last_line", more))
	}
	l.log.LogAttrs(context.Background(), slog.LevelWarn, text, attrs...)
}

// count counts a call. tell reports whether a line is due, which then says that more calls came
// since the last line.
func (l *Log) count(remote net.Addr, p Protocol, now time.Time) (more int, tell bool) {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		host = remote.String()
	}
	key := caller{host, p}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.seen[key]
	if c == nil {
		if len(l.seen) >= maxHosts {
			l.forget(now)
		}
		if len(l.seen) >= maxHosts {
			return 0, false
		}
		l.seen[key] = &calls{told: now}
		return 0, true
	}
	if now.Sub(c.told) < quiet {
		c.more++
		return 0, false
	}
	more, c.more, c.told = c.more, 0, now
	return more, true
}

// forget drops the callers whose next call would get a line anyway. The caller holds mu.
func (l *Log) forget(now time.Time) {
	for k, c := range l.seen {
		if now.Sub(c.told) >= quiet {
			delete(l.seen, k)
		}
	}
}

// client names a client of a protocol.
func client(p Protocol) string {
	switch p {
	case CoroRPC:
		return "a store client of upstream's (coro_rpc)"
	case CoroRDMA:
		return "a store client of upstream's (coro_rpc over RDMA)"
	case HTTP:
		return "an HTTP client"
	case TLS:
		return "a TLS client"
	case Redis:
		return "a Redis client"
	case HTTP2:
		return "an HTTP/2 or gRPC client"
	case Lean:
		return "a client of a Mooncake master"
	default:
		return "a client of an unknown protocol"
	}
}

// Server names a server of a protocol.
func (p Protocol) Server() string {
	switch p {
	case CoroRPC, CoroRDMA:
		return "a master of upstream (coro_rpc)"
	case HTTP:
		return "an HTTP server"
	case TLS:
		return "a TLS server"
	case Redis:
		return "a Redis server"
	case HTTP2:
		return "a gRPC server"
	case Lean:
		return "a Mooncake master"
	default:
		return "a server of an unknown protocol"
	}
}

// Show formats the first bytes of a client for a log line. For HTTP it is the first line of the
// request without the query, which may be secret. For an unknown protocol it is the first 16
// bytes in hexadecimal and as text. For other protocols it is empty.
func Show(p Protocol, first []byte) string {
	switch p {
	case HTTP:
		line, _, _ := strings.Cut(string(first), "\n")
		line, _, _ = strings.Cut(line, "?")
		return strings.Trim(fmt.Sprintf("%q", strings.TrimSpace(line)), `"`)
	case Unknown:
		first = first[:min(len(first), 16)]
		return fmt.Sprintf("% x %q", first, first)
	default:
		return ""
	}
}
