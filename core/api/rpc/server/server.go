// Package server serves a master to other processes; see New.
package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/upstream"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/core/store"
)

// Server serves a master on a listener. A call that panics fails alone.
type Server struct {
	grpc   *grpc.Server
	framed *framed.Server // of this project's clients, and of upstream's where they are served
}

// New returns a server of m. Nothing runs before Serve.
func New(m store.Master, opts Options) *Server {
	opts = opts.withDefaults()
	chain := []grpc.UnaryServerInterceptor{guarded(opts.Logger), checkedCaller}
	if opts.Observe != nil {
		chain = append([]grpc.UnaryServerInterceptor{observed(opts.Observe)}, chain...)
	}
	s := &Server{framed: framed.NewServer(), grpc: grpc.NewServer(
		grpc.Creds(access.Credentials()),
		grpc.MaxRecvMsgSize(rpc.MaxMessageSize),
		grpc.MaxSendMsgSize(rpc.MaxMessageSize),
		grpc.MaxConcurrentStreams(opts.MaxStreams),
		grpc.MaxHeaderListSize(64<<10),
		// What a client may send of a request before the server has memory for the rest.
		grpc.InitialWindowSize(framed.Uncounted),
		grpc.InitialConnWindowSize(1<<20),
		grpc.ConnectionTimeout(opts.HandshakeTimeout),
		// A client may ask for a sign of life every 5 s; one that is silent for 40 s
		// while the connection is idle is gone.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: opts.IdleTimeout, Time: 30 * time.Second, Timeout: 10 * time.Second,
		}),
		grpc.ChainUnaryInterceptor(append([]grpc.UnaryServerInterceptor{bounded(opts.CallTimeout)}, chain...)...),
	)}
	limits := framed.Limits{
		Frame: rpc.MaxMessageSize, Calls: int(opts.MaxStreams), Stall: opts.HandshakeTimeout, Idle: opts.IdleTimeout, Call: opts.CallTimeout,
	}
	own := lean.NewServer(limits, chain...)
	own.Codec = codec{}
	s.framed.Register(foreign.Lean, own)
	if opts.Upstream != nil {
		limits.Calls = 0 // The default of upstream's clients.
		s.framed.Register(foreign.CoroRPC, upstream.NewServer(upstream.Options{
			Handler: opts.Upstream, Logger: opts.Logger, Limits: limits, Observe: opts.Observe,
		}))
	}
	b := newBudget(opts)
	s.framed.Conns, s.framed.Stall, s.framed.Budget = opts.MaxConnections, opts.HandshakeTimeout, b
	s.framed.ConnClosed, s.framed.Foreign = logConnClosed(opts), turnedAway(opts)
	s.framed.Connections = func(p foreign.Protocol, more int) {
		if p == foreign.CoroRPC && opts.UpstreamConnections != nil {
			opts.UpstreamConnections(more)
		}
	}
	s.grpc.RegisterService(counted(masterv1.MasterService_ServiceDesc, b, opts), &service{master: m})
	masterv1.RegisterMasterServiceServer(own, &service{master: m})
	return s
}

// Serve answers on ln until Stop, and closes it: calls over gRPC, over the leaner framing of package
// lean, and of upstream's clients. It returns nil after Stop.
func (s *Server) Serve(ln net.Listener) error {
	err := s.grpc.Serve(s.framed.Split(ln))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Stop takes no new calls and waits for those in flight until ctx is done, then cuts
// them off. Repeatable; also before Serve.
func (s *Server) Stop(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		all.Go(s.grpc.GracefulStop)
		all.Go(func() { s.framed.Stop(ctx) })
		all.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
}
