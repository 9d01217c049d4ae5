package lean

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
	"github.com/mooncake-go/mooncake/sdk/x/samehost"
)

// Server answers the unary methods of services that are described for gRPC. Make one with
// NewServer, register services, then give its connections to it with Split. Safe for
// concurrent use.
type Server struct {
	// Codec of requests and responses. Set it before the first connection; nil is package
	// proto.
	Codec Codec
	// Budget, where set, is asked for memory before a large request is read. Set it before the
	// first connection.
	Budget Budget
	// ConnClosed, where set, is told of each connection that is closed or refused because there are
	// too many. Set it before the first connection. It is called from many goroutines; it must not
	// block.
	ConnClosed func(ConnClosed)
	// Foreign, where set, is told of each connection that is turned away because it speaks
	// another protocol, with its first bytes, and returns what the peer is answered. Set it before the
	// first connection. It is called from many goroutines; it must not block.
	Foreign func(remote net.Addr, p foreign.Protocol, first []byte) (answer []byte)

	// CoroRPC, where set, serves the connections of upstream's clients. It may return before they end.
	// Set it before the first connection.
	CoroRPC func(*Handed)

	limits  Limits
	chain   grpc.UnaryServerInterceptor
	methods map[string]*method

	ctx    context.Context // ends when calls are cut off
	cancel context.CancelFunc
	taking context.Context // ends when no more calls are taken
	refuse context.CancelFunc

	mu       sync.Mutex
	stopping bool
	conns    map[*serverConn]struct{}
	serving  sync.WaitGroup // goroutines of connections and of calls
}

// method is a method of a service.
type method struct {
	name string
	impl any
	call func(srv any, ctx context.Context, dec func(any) error, chain grpc.UnaryServerInterceptor) (any, error)
}

// NewServer makes a server whose calls go through the interceptors, the first one outermost.
func NewServer(l Limits, chain ...grpc.UnaryServerInterceptor) *Server {
	s := &Server{limits: l.withDefaults(), methods: map[string]*method{}, conns: map[*serverConn]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.taking, s.refuse = context.WithCancel(s.ctx)
	for i := len(chain) - 1; i >= 0; i-- {
		s.chain = chained(chain[i], s.chain)
	}
	return s
}

// chained calls outer around inner, which is nil for none.
func chained(outer, inner grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if inner == nil {
		return outer
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return inner(ctx, req, info, handler)
		})
	}
}

// RegisterService implements grpc.ServiceRegistrar. Methods with streams are left out.
// Before the first connection.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	for i := range desc.Methods {
		m := &desc.Methods[i]
		name := "/" + desc.ServiceName + "/" + m.MethodName
		s.methods[name] = &method{name: name, impl: impl, call: m.Handler}
	}
}

// serveConn serves a connection whose first bytes, those that tell what it is, were read,
// until the peer or Stop ends it, and closes it.
func (s *Server) serveConn(g *trackedConn) {
	samehost.Tune(g.conn)
	conn := busypoll.Adopt(g.conn, s.limits.Poll)
	c, err := newServerConn(s, conn)
	if err != nil || !g.become(conn) {
		_ = conn.Close()
		return
	}
	c.greeted = g.greeted
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		_ = conn.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()
	defer s.serving.Done()
	c.serve()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// Stop takes no more calls, waits for those in progress until ctx ends, then cuts them off.
// Repeatable.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopping = true
	s.refuse()
	for c := range s.conns {
		_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // It reads no more, and ends when it is idle.
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
			c.giveUp(0)
			_ = c.conn.Close()
		}
		s.mu.Unlock()
		<-over
	}
	s.cancel()
}
