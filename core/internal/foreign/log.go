package foreign

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"
)

// Log writes warnings for clients that call a port by mistake: one line a minute for each host and
// protocol, with the number of connections since the last line. It is safe for concurrent use.
type Log struct {
	log   *slog.Logger
	port  string
	hints map[Protocol]string

	rate Rate[caller]
}

type caller struct {
	host     string
	protocol Protocol
}

// NewLog makes a log of a port. port is its name in the line, for example "the master's RPC
// port"; hints say what to do about a protocol.
func NewLog(log *slog.Logger, port string, hints map[Protocol]string) *Log {
	return &Log{log: log, port: port, hints: hints}
}

// Report notes a client with its first bytes.
func (l *Log) Report(remote net.Addr, p Protocol, first []byte) {
	more, tell := l.rate.Count(caller{HostOf(remote), p}, time.Now())
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
