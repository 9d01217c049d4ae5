package upstream

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
	"github.com/mooncake-go/mooncake/sdk/x/samehost"
)

// Options are the settings of a Server. Handler is required.
type Options struct {
	Handler Handler
	// Logger, nil for none.
	Logger *slog.Logger
	// Frame is the largest request in bytes, and the largest answer. Default 16 MiB.
	Frame int
	// Calls is how many calls of one connection may be in flight; more wait unread. Default 64.
	Calls int
	// Stall is how long a client may not take what is sent to it, and how long a small request may
	// take to arrive. Default 10 s.
	Stall time.Duration
	// Call is how long the server works on a call at most. Default 30 s, after which a client closes
	// its connection.
	Call time.Duration
	// Idle is how long a connection may have no call in flight before the server closes it, which
	// costs the client a failed call: 5 minutes at least. 0 means for ever.
	Idle time.Duration
	// Poll is how long a wait polls (package busypoll).
	Poll time.Duration
	// Budget, where set, is asked for memory before a large request is read.
	Budget lean.Budget
	// Name returns the name of a function, and "" for one that is not known. Readers returns the
	// versions that can read an answer to it that is for another one. By default they ask package calls.
	Name    func(function uint32) string
	Readers func(function uint32, as calls.Version) calls.Versions
	// Observe, where set, is told how long each call of a known function took, by the name of this
	// project's own call where there is the same. Connections, where set, is told by how many the
	// connections become more. Called from many goroutines; they must not block.
	Observe     func(method string, took time.Duration)
	Connections func(more int)
}

// leastIdle is the least time after which an idle connection is closed. Clients close theirs a minute
// after the last call.
const leastIdle = 5 * time.Minute

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Frame <= 0 {
		o.Frame = 16 << 20
	}
	if o.Calls <= 0 {
		o.Calls = 64
	}
	if o.Stall <= 0 {
		o.Stall = 10 * time.Second
	}
	if o.Call <= 0 {
		o.Call = 30 * time.Second
	}
	if o.Idle > 0 {
		o.Idle = max(o.Idle, leastIdle)
	}
	if o.Name == nil {
		o.Name = nameOf
	}
	if o.Readers == nil {
		o.Readers = readersOf
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration) {}
	}
	if o.Connections == nil {
		o.Connections = func(int) {}
	}
	return o
}

func nameOf(function uint32) string {
	if f := calls.Lookup(function); f != nil {
		return f.Name()
	}
	return ""
}

func readersOf(function uint32, as calls.Version) calls.Versions {
	if f := calls.Lookup(function); f != nil {
		return f.Readers(as)
	}
	return calls.All
}

// Server serves the connections that Split of package lean hands to it. Safe for concurrent use.
type Server struct {
	o        Options
	peers    *peers
	refusals *refusals

	ctx    context.Context // ends when calls are cut off
	cancel context.CancelFunc
	taking context.Context // ends when no more calls are taken
	refuse context.CancelFunc

	mu       sync.Mutex
	stopping bool
	conns    map[*conn]struct{}
	serving  sync.WaitGroup // one for each of conns
}

// NewServer returns a server.
func NewServer(o Options) *Server {
	o = o.withDefaults()
	s := &Server{o: o, peers: newPeers(), refusals: newRefusals(o.Logger), conns: map[*conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.taking, s.refuse = context.WithCancel(s.ctx)
	return s
}

// Serve serves a connection. It returns before the connection ends where another goroutine goes on.
func (s *Server) Serve(h *lean.Handed) {
	samehost.Tune(h.Conn)
	socket := busypoll.Adopt(h.Conn, s.o.Poll)
	c, err := newConn(s, h, socket)
	if err != nil || !h.Become(socket) || !s.enter(c) {
		_ = socket.Close()
		h.Left()
		return
	}
	c.peer = s.peers.enter(addrOf(socket))
	s.o.Connections(1)
	c.readOn()
}

// enter counts a connection, unless Stop was called.
func (s *Server) enter(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	return true
}

// forget is the last that happens to a connection.
func (s *Server) forget(c *conn) {
	s.o.Connections(-1)
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.serving.Done()
}

func addrOf(conn net.Conn) netip.AddrPort {
	a, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.AddrPort{}
	}
	return a
}

// Stop takes no more calls, waits for those in progress until ctx ends, then cuts them off.
// Repeatable.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopping = true
	s.refuse()
	for c := range s.conns {
		c.retire()
	}
	s.mu.Unlock()
	over := make(chan struct{})
	go func() { s.serving.Wait(); close(over) }()
	select {
	case <-over:
	case <-ctx.Done():
		s.cancel()
		s.mu.Lock()
		for c := range s.conns {
			c.giveUp()
			_ = c.socket.Close()
		}
		s.mu.Unlock()
		<-over
	}
	s.cancel()
}
