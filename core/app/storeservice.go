package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/api/rest/storeservice"
	"github.com/mooncake-go/mooncake/core/internal/httpd"
)

// serviceDrain bounds the wait for requests under way when the REST service stops. The node
// has the rest of StopTimeout.
const serviceDrain = 10 * time.Second

// storeService is the REST service of a store node; it does nothing without a port.
type storeService struct {
	role   *storeRole
	host   string
	port   int
	log    *slog.Logger
	server *httpd.Server
}

func (s *storeRole) service(log *slog.Logger) *storeService {
	c := s.peer.cfg.Store
	return &storeService{role: s, host: c.RESTHost, port: c.RESTPort, log: log}
}

// probe fails early where the port cannot be had: the service listens only when the node
// is mounted, which may take its time.
func (v *storeService) probe(ctx context.Context) error {
	if v.port == 0 {
		v.log.Info("no REST service; --port switches it on")
		return nil
	}
	ln, err := listen(ctx, "store service", v.host, v.port, "port")
	if err != nil {
		return err
	}
	return ln.Close()
}

func (v *storeService) start(ctx context.Context) error {
	if v.port == 0 {
		return nil
	}
	ln, err := listen(ctx, "store service", v.host, v.port, "port")
	if err != nil {
		return err
	}
	v.server = storeservice.NewServer(storeservice.New(v.role.client, v.role.node.Load(), storeservice.Options{
		Protocols: v.role.peer.cfg.Store.Transports, Logger: v.log,
	}), v.log)
	v.server.Start(ln)
	v.log.Info("store service is serving", "address", ln.Addr().String())
	return nil
}

func (v *storeService) stop(ctx context.Context) error {
	if v.server == nil {
		return nil
	}
	bound, cancel := context.WithTimeout(ctx, serviceDrain)
	defer cancel()
	return errors.Join(v.server.Stop(bound), ctx.Err())
}
