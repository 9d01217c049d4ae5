package storeservice

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/store/member"
)

// Module serves the REST service of a store node, if it has a port. The probe comes first: the
// service listens only when the node is mounted, which may take long.
func Module() fx.Option {
	return fx.Module("api/rest/storeservice", fx.Provide(provideProbe, provideService), fx.Invoke(func(*probe) {}, func(*nodeService) {}))
}

// probe fails early if another process has the port of the service.
type probe struct {
	cfg config.Store
	log *slog.Logger
}

func provideProbe(lc fx.Lifecycle, cfg config.Config, log *slog.Logger) *probe {
	p := &probe{cfg.Store, log}
	lc.Append(fx.StartHook(p.start))
	return p
}

func (p *probe) start(ctx context.Context) error {
	if p.cfg.RESTPort == 0 {
		p.log.Info("no REST service; --port switches it on")
		return nil
	}
	ln, err := ports.Probe(ctx, service, p.cfg.RESTHost, p.cfg.RESTPort, "port")
	if err != nil {
		return err
	}
	return ln.Close()
}

// service is its name in logs and errors.
const service = "store service"

// nodeService is the service of a node, nothing without a port.
type nodeService struct {
	cfg    config.Store
	doors  *doors.Doors
	node   *member.Node
	log    *slog.Logger
	server *httpd.Server
}

func provideService(lc fx.Lifecycle, cfg config.Config, d *doors.Doors, node *member.Node, log *slog.Logger) *nodeService {
	s := &nodeService{cfg: cfg.Store, doors: d, node: node, log: log}
	lc.Append(fx.StartStopHook(s.start, s.stop))
	return s
}

func (s *nodeService) start(ctx context.Context) error {
	if s.cfg.RESTPort == 0 {
		return nil
	}
	ln, err := ports.Listen(ctx, s.doors, config.DoorREST, service, s.cfg.RESTHost, s.cfg.RESTPort, "port")
	if err != nil {
		return err
	}
	s.server = NewServer(New(s.node.Client(), s.node.Store(), Options{Files: s.cfg.RESTFiles, Protocols: s.cfg.Transports, Access: s.doors.Access(), Tenant: s.doors.Tenant(s.cfg.TenantID), Logger: s.log}), s.doors, s.log)
	s.server.Start(ln)
	s.log.Info("store service is serving", "address", ln.Addr().String())
	return nil
}

// drainTime bounds the wait for requests in progress when the service stops, so that the node has
// the rest of the time.
const drainTime = 10 * time.Second

func (s *nodeService) stop(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	bound, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	return errors.Join(s.server.Stop(bound), ctx.Err())
}
