package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/core/store/member"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Module serves the client of a node to other processes of the host, and its state on a port.
func Module() fx.Option {
	return fx.Module("store/local/serve", fx.Provide(provideService), fx.Invoke(func(*nodeService) {}))
}

func provideService(lc fx.Lifecycle, cfg config.Config, d *doors.Doors, node *member.Node, status *member.Status, log *slog.Logger, fail ports.Failer) (*nodeService, error) {
	s := &nodeService{cfg: cfg.Store, doors: d, node: node, status: status, log: log, fail: fail}
	if err := FromConfig(cfg.Store).Validate(); err != nil {
		return nil, errs.Wrap(errs.CodeOf(err), "store.local_socket", err)
	}
	lc.Append(fx.StartStopHook(s.start, s.stop))
	return s, nil
}

// FromConfig returns the settings of the server.
func FromConfig(s config.Store) Config {
	c := DefaultConfig(local.SocketOf(s))
	c.Any = s.LocalAccess == "any"
	c.LendSize = uint64(s.LocalLendSize)
	c.CallTimeout = max(c.CallTimeout, local.LongestCall(s))
	return c
}

// nodeService is the server and the port that shows its state.
type nodeService struct {
	cfg    config.Store
	doors  *doors.Doors
	node   *member.Node
	status *member.Status
	log    *slog.Logger
	fail   ports.Failer

	server *Server
	port   *StatusServer
	done   chan struct{} // closed when the port is no longer served
}

func (s *nodeService) start(ctx context.Context) error {
	ln, err := ports.Listen(ctx, s.doors, config.DoorLocal, "local service", ports.BindFor(ports.Host(s.cfg.LocalHostname)), s.cfg.Port, "port")
	if err != nil {
		return err
	}
	if err := s.open(ctx, ln); err != nil {
		return errors.Join(err, ln.Close())
	}
	return nil
}

func (s *nodeService) open(ctx context.Context, ln net.Listener) error {
	server, err := New(FromConfig(s.cfg), Deps{Client: s.node.Client(), Log: s.log, Metrics: s.status.Registerer()})
	if err != nil {
		return err
	}
	if err := server.Start(ctx); err != nil {
		return err
	}
	s.server, s.port, s.done = server, NewStatusServer(server, s.doors.Access()), make(chan struct{})
	go func() {
		defer close(s.done)
		if err := s.port.Serve(ln); err != nil {
			s.fail(errs.Wrap(errs.Internal, "local service: serve the status port", err))
		}
	}()
	s.log.Info("local service is serving", "socket", local.SocketOf(s.cfg), "status", ln.Addr().String())
	return nil
}

func (s *nodeService) stop(ctx context.Context) error {
	err := s.server.Stop(ctx)
	s.port.Stop()
	<-s.done
	return err
}
