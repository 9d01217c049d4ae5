package framed

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
	"github.com/mooncake-go/mooncake/sdk/x/samehost"
)

// Server serves the connections of several protocols whose messages are frames. Make one with NewServer,
// set what is to be set, register protocols, then give its connections to it with Split. Safe for
// concurrent use. Its functions are called from many goroutines; they must not block.
type Server struct {
	// Conns is how many connections Split has at most, 0 for any number. A connection beyond takes
	// the place of another. ConnClosed, where set, is told of each that is closed or refused.
	Conns      int
	ConnClosed func(ConnClosed)
	// Awake is how long a connection has to be idle to give way to one of a host that has as many.
	// NewServer sets 100 ms.
	Awake time.Duration
	// Stall is how long the first bytes of a connection may take. NewServer sets 10 s.
	Stall time.Duration
	// Budget, where set, is asked for memory before a large request is read.
	Budget Budget
	// Connections, where set, is told by how many the connections of a protocol become more.
	Connections func(p foreign.Protocol, more int)
	// Foreign, where set, is told of each connection that is turned away because its protocol is not served,
	// with its first bytes, and returns what the peer is answered.
	Foreign func(remote net.Addr, p foreign.Protocol, first []byte) (answer []byte)

	protocols map[foreign.Protocol]Protocol

	calling
	cancel context.CancelFunc // of ctx
	refuse context.CancelFunc // of taking

	mu       sync.Mutex
	stopping bool
	conns    map[*conn]struct{}
	serving  sync.WaitGroup // one for each of conns
}

// NewServer makes a server of no protocol.
func NewServer() *Server {
	s := &Server{Stall: 10 * time.Second, Awake: 100 * time.Millisecond, protocols: map[foreign.Protocol]Protocol{}, conns: map[*conn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.taking, s.refuse = context.WithCancel(s.ctx)
	return s
}

// Register has the connections that begin as of says served by p. Before the first connection.
func (s *Server) Register(of foreign.Protocol, p Protocol) { s.protocols[of] = p }

// serve serves a connection whose first bytes were read, until the client or Stop ends it, and closes it.
// It returns earlier where another goroutine goes on.
func (s *Server) serve(of foreign.Protocol, g *trackedConn, first []byte) {
	samehost.Tune(g.conn)
	p := s.protocols[of]
	c := &conn{calling: s.calling, ended: s.forget, of: of, protocol: p, tracked: g, socket: busypoll.Adopt(g.conn, p.Limits().Poll)}
	c.budget, c.ctx = s.Budget, access.With(s.ctx, access.PeerOf(g.conn))
	if err := c.open(first); err != nil || !g.become(c.socket) || !s.enter(c) {
		_ = c.socket.Close()
		g.left()
		return
	}
	s.tell(of, 1)
	c.serve()
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
	s.tell(c.of, -1)
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.serving.Done()
}

func (s *Server) tell(of foreign.Protocol, more int) {
	if s.Connections != nil {
		s.Connections(of, more)
	}
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
