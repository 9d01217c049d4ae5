package server

import (
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/api/upstream"
	"github.com/mooncake-go/mooncake/core/internal/access"
)

// DefaultMemoryBudget is that of Options.MemoryBudget.
const DefaultMemoryBudget = 512 << 20

// Options are the settings of a Server; the zero value is usable.
type Options struct {
	// Logger, nil for none.
	Logger *slog.Logger
	// CallTimeout bounds one call, also where the caller allowed more. Default 30 s.
	CallTimeout time.Duration
	// MaxStreams bounds the calls in flight on one connection. Default 1024.
	MaxStreams uint32
	// HandshakeTimeout is how long a connection may take to speak gRPC. Default 10 s.
	HandshakeTimeout time.Duration
	// IdleTimeout is how long a connection may have no call in flight before the server
	// closes it; the client connects again with its next call. 0 never closes it.
	IdleTimeout time.Duration
	// Observe, where set, is told how long each call took, by the bare name of its method,
	// for example PutStart. Called from many goroutines; it must not block.
	Observe func(method string, took time.Duration)
	// MemoryBudget is how much memory all requests of more than 64 KiB together may take, in
	// bytes; a byte of a request counts as four. More wait unread. Default 512 MiB.
	MemoryBudget int64
	// MaxConnections is how many connections there may be; one that has been idle for long gives
	// way to a new one. 0 for any number.
	MaxConnections int
	// Memory, where set, is told by how many bytes what is taken of MemoryBudget changes, and
	// MemoryWait of each request that waits for it. Called from many goroutines; they must not block.
	Memory     func(bytes int64)
	MemoryWait func()
	// ConnClosed, where set, is told why a connection was closed or refused because there were too
	// many, with the words of framed.CloseReason. Called from many goroutines; it must not block.
	ConnClosed func(why string)
	// Access decides over the calls of peers with an identity, and tells of them; nil tells nothing. OneTenant
	// says that the master serves one tenant only.
	Access    *access.Control
	OneTenant bool
	// Upstream, where set, answers upstream's clients, which are turned away otherwise.
	// UpstreamConnections, where set, is told by how many their connections become more. Called from many
	// goroutines; it must not block.
	Upstream            upstream.Handler
	UpstreamConnections func(more int)
	// Foreign, where set, is told of each connection that was turned away, by the name of its
	// protocol as package foreign gives it. Called from many goroutines; it must not block.
	Foreign func(protocol string)
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 30 * time.Second
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 1024
	}
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	if o.MemoryBudget <= 0 {
		o.MemoryBudget = DefaultMemoryBudget
	}
	if o.Memory == nil {
		o.Memory = func(int64) {}
	}
	if o.MemoryWait == nil {
		o.MemoryWait = func() {}
	}
	return o
}
