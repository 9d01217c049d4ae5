// Package server serves a master to other processes; see New.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/mastercodec"
	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/store"
)

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
	return o
}

// Server serves a master on a listener. A call that panics fails alone.
type Server struct {
	grpc *grpc.Server
	lean *lean.Server
}

// New returns a server of m. Nothing runs before Serve.
func New(m store.Master, opts Options) *Server {
	opts = opts.withDefaults()
	chain := []grpc.UnaryServerInterceptor{guarded(opts.Logger), checkedCaller}
	if opts.Observe != nil {
		chain = append([]grpc.UnaryServerInterceptor{observed(opts.Observe)}, chain...)
	}
	s := &Server{grpc: grpc.NewServer(
		grpc.MaxRecvMsgSize(rpc.MaxMessageSize),
		grpc.MaxSendMsgSize(rpc.MaxMessageSize),
		grpc.MaxConcurrentStreams(opts.MaxStreams),
		grpc.MaxHeaderListSize(64<<10),
		grpc.ConnectionTimeout(opts.HandshakeTimeout),
		// A client may ask for a sign of life every 5 s; one that is silent for 40 s
		// while the connection is idle is gone.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: opts.IdleTimeout, Time: 30 * time.Second, Timeout: 10 * time.Second,
		}),
		grpc.ChainUnaryInterceptor(append([]grpc.UnaryServerInterceptor{bounded(opts.CallTimeout)}, chain...)...),
	)}
	s.lean = lean.NewServer(lean.Limits{
		Frame: rpc.MaxMessageSize, Calls: int(opts.MaxStreams), Stall: opts.HandshakeTimeout, Idle: opts.IdleTimeout, Call: opts.CallTimeout,
	}, chain...)
	s.lean.Codec = mastercodec.Codec{}
	s.lean.Foreign = turnedAway(opts)
	masterv1.RegisterMasterServiceServer(s.grpc, &service{master: m})
	masterv1.RegisterMasterServiceServer(s.lean, &service{master: m})
	return s
}

// Serve answers on ln until Stop, and closes it: calls over gRPC, and over the leaner
// framing of package lean. It returns nil after Stop.
func (s *Server) Serve(ln net.Listener) error {
	err := s.grpc.Serve(lean.Split(ln, s.lean))
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
		var both sync.WaitGroup
		both.Go(s.grpc.GracefulStop)
		both.Go(func() { s.lean.Stop(ctx) })
		both.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
}
