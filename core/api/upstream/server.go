package upstream

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
	"github.com/mooncake-go/mooncake/sdk/x/samehost"
)

// Server serves the connections that Split of package lean hands to it. Safe for concurrent use.
type Server struct {
	shared
	peers  *peers
	cancel context.CancelFunc // of ctx
	refuse context.CancelFunc // of taking

	mu       sync.Mutex
	stopping bool
	conns    map[*conn]struct{}
	serving  sync.WaitGroup // one for each of conns
}

// NewServer returns a server.
func NewServer(o Options) *Server {
	o = o.withDefaults()
	s := &Server{shared: shared{o: o, refusals: newRefusals(o.Logger, o.called)}, peers: newPeers(), conns: map[*conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.taking, s.refuse = context.WithCancel(s.ctx)
	return s
}

// Serve serves a connection. It returns before the connection ends where another goroutine goes on.
func (s *Server) Serve(h *lean.Handed) {
	samehost.Tune(h.Conn)
	socket := busypoll.Adopt(h.Conn, s.o.Poll)
	c, err := newConn(&s.shared, h, socket)
	if err != nil || !h.Become(socket) || !s.enter(c) {
		_ = socket.Close()
		h.Left()
		return
	}
	c.peer, c.ended = s.peers.enter(addrOf(socket)), s.forget
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
