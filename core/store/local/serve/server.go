// Package serve is the side of a local attachment that owns the client of the pool. Other processes of
// the host attach to it (package local), share their memory with it as sealed memfds, and have it move
// objects between that memory and the pool. No byte of an object passes through a socket.
//
// One unix socket accepts both connections of a process: the lifeline, over which memory is shared and
// whose end means that the other side is gone, and the connection for gRPC calls. The service unmaps
// the memory of a process only when no call uses it any more, and closes the lifeline after that, so
// that the end of the lifeline proves to the other side that the service no longer uses its memory.
package serve

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/core/store/local/internal/shm"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// maxMessage bounds one gRPC message in bytes.
const maxMessage = 16 << 20

// Server lets processes of this host use one client. It is safe for concurrent use.
type Server struct {
	cfg  Config
	deps Deps

	ln    *net.UnixListener
	calls *queue // connections on their way to grpc
	grpc  *grpc.Server
	lend  *shm.Mapping // nil when nothing is lent
	pool  *memory.Pool
	tasks sync.WaitGroup

	inFlight    atomic.Int64 // calls
	served      atomic.Uint64
	quarantined atomic.Uint64 // bytes

	mu     sync.Mutex
	peers  map[frame.Token]*process
	fresh  []*net.UnixConn // connections that have not said what they are for, oldest first
	closed bool
}

// New makes a server. It acquires nothing.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Client == nil || deps.Log == nil {
		return nil, errs.New(errs.InvalidParams, "local service", "a client and a logger are needed")
	}
	s := &Server{
		cfg: cfg, deps: deps, calls: newQueue(),
		peers: map[frame.Token]*process{},
	}
	return s, s.register(deps.Metrics)
}

// Start takes the socket and serves until Stop. The error is UnavailableInCurrentStatus if another
// process has the socket.
func (s *Server) Start(ctx context.Context) error {
	var lc net.ListenConfig
	if s.cfg.Socket[0] == '/' {
		if err := freePath(ctx, s.cfg.Socket); err != nil {
			return err
		}
	}
	ln, err := lc.Listen(ctx, "unix", s.cfg.Socket)
	if err != nil {
		return errs.WithHint(errs.Wrap(errs.UnavailableInCurrentStatus, "local service: listen on "+s.cfg.Socket, err),
			"another client of this host has it ('ss -xlp' shows which); choose another --port or store.local_socket")
	}
	s.ln = ln.(*net.UnixListener)
	if s.cfg.Socket[0] == '/' && s.cfg.Any {
		err = os.Chmod(s.cfg.Socket, 0o666) //nolint:gosec // Any means that every user may connect.
	}
	if err == nil {
		err = s.openLend(ctx)
	}
	if err != nil {
		return errors.Join(errs.Wrap(errs.CodeOf(err), "local service", err), s.ln.Close())
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(bound{}), grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxCalls)+8), // Cancel and Release must get through.
		grpc.MaxHeaderListSize(64<<10), grpc.ChainUnaryInterceptor(s.intercept), grpc.WaitForHandlers(true),
	)
	localv1.RegisterLocalServiceServer(s.grpc, &service{s: s})
	s.tasks.Go(func() {
		if err := s.grpc.Serve(s.calls); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.deps.Log.Error("local service: calls are not served any more", "error", err)
		}
	})
	s.tasks.Go(s.accept)
	s.deps.Log.Info("processes of this host can attach", "socket", s.cfg.Socket)
	return nil
}

// Stop ends every attachment: it cancels the calls in flight, waits for them and then frees all
// memory. Stop can be repeated. After an error, memory that may still be touched stays mapped.
func (s *Server) Stop(ctx context.Context) error {
	if s.ln == nil {
		return nil
	}
	s.mu.Lock()
	s.closed = true
	peers := make([]*process, 0, len(s.peers))
	for _, p := range s.peers {
		peers = append(peers, p)
	}
	for _, c := range s.fresh {
		_ = c.Close() // The peer has not sent its hello yet.
	}
	s.mu.Unlock()
	_ = s.ln.Close() // It may be closed already.
	for _, p := range peers {
		p.hangUp()
	}
	done := make(chan struct{})
	go func() { s.grpc.Stop(); s.tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return errs.Wrap(errs.Internal, "local service: stop with calls in flight", ctx.Err())
	}
	if s.lend == nil {
		return nil
	}
	err := s.deps.Client.UnregisterBuffer(ctx, s.lend.Bytes())
	if err == nil {
		err = s.lend.Close()
		s.lend = nil
	}
	return err
}
