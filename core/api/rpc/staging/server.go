// Package staging is the calls between readers and the nodes of storage tiers: Server is the node's side, and Client the
// reader's.
package staging

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	nodev1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/node/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxCall bounds a call, also where the reader allows more.
const maxCall = 30 * time.Second

// Server serves a store.Stager on a listener. A call that panics fails alone.
type Server struct{ grpc *grpc.Server }

// NewServer returns a server of s. Nothing runs before Serve. log may be nil.
func NewServer(s store.Stager, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := grpc.NewServer(
		grpc.Creds(access.Credentials()),
		grpc.MaxRecvMsgSize(rpc.MaxStageRequest),
		grpc.MaxSendMsgSize(rpc.MaxStageAnswer),
		grpc.MaxConcurrentStreams(256),
		grpc.MaxHeaderListSize(64<<10),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 10 * time.Minute, Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.UnaryInterceptor(guarded(log)),
	)
	nodev1.RegisterTierServiceServer(g, &service{stager: s})
	return &Server{g}
}

// Serve answers on ln until Stop, and closes it. It returns nil after Stop.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.grpc.Serve(ln); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Stop takes no new calls and waits for those in flight until ctx is done, then cuts them off. Repeatable; also before Serve.
func (s *Server) Stop(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
}

// guarded bounds calls and turns errors into statuses that carry their code, and a panic into Internal for that call alone.
func guarded(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		ctx, cancel := context.WithTimeout(ctx, maxCall)
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				log.ErrorContext(ctx, "a call of a reader panicked; it answers INTERNAL_ERROR, the node goes on",
					"method", info.FullMethod, "panic", p, "stack", string(debug.Stack()))
				resp, err = nil, convert.StatusError(errs.New(errs.Internal, "tier: "+info.FullMethod, "it failed on a fault of its own; its log says more"))
			}
		}()
		if resp, err = next(ctx, req); err != nil {
			return nil, convert.StatusError(err)
		}
		return resp, nil
	}
}

// service translates calls.
type service struct {
	nodev1.UnimplementedTierServiceServer
	stager store.Stager
}

func (s *service) Stage(ctx context.Context, in *nodev1.StageRequest) (*nodev1.StageResponse, error) {
	reads, err := convert.FromStage(in)
	if err != nil {
		return nil, err
	}
	got, err := s.stager.Stage(ctx, reads)
	if err != nil {
		return nil, err
	}
	if len(got.Parts) != len(reads) {
		return nil, errs.New(errs.Internal, "tier: stage", "%d answers for %d reads", len(got.Parts), len(reads))
	}
	return convert.ToStaging(got), nil
}

func (s *service) Release(ctx context.Context, in *nodev1.ReleaseRequest) (*nodev1.ReleaseResponse, error) {
	return &nodev1.ReleaseResponse{}, s.stager.Release(ctx, in.GetId())
}
