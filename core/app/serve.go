package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/core/store/local/serve"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Serve is a node, with or without memory of its own, whose client other processes of the
// host use over shared memory.
func Serve(cfg config.Config, builtins []plugin.Factory) fx.Option {
	return fx.Options(
		nodeRole(cfg, builtins, func(config.Store) error { return nil }),
		fx.Invoke(func(lc fx.Lifecycle, s *storeRole, log *slog.Logger, fail Failer) error {
			r := &serveRole{cfg: cfg.Store, node: s, log: log, fail: fail}
			if err := r.config().Validate(); err != nil {
				return errs.Wrap(errs.CodeOf(err), "store.local_socket", err)
			}
			lc.Append(fx.Hook{OnStart: r.start, OnStop: r.stop})
			return nil
		}),
	)
}

// serveRole is what Serve adds to a node: the socket, and the port that tells about it.
type serveRole struct {
	cfg    config.Store
	node   *storeRole
	log    *slog.Logger
	fail   Failer
	server *serve.Server
	status *serve.StatusServer
	done   chan struct{} // closed when the port is not served any more
}

// localSocket is where processes of this host attach.
func localSocket(s config.Store) string {
	if s.LocalSocket != "" {
		return s.LocalSocket
	}
	return local.SocketOfPort(s.Port)
}

// longestCall bounds a call through the local service: its transfers, and the calls to the master
// around them. A service that stands still is noticed by its pings, long before.
func longestCall(s config.Store) time.Duration {
	if s.TransferTimeout <= 0 {
		return client.LongestPut + s.RPCTimeout
	}
	return s.TransferTimeout + s.RPCTimeout
}

func (r *serveRole) config() serve.Config {
	c := serve.DefaultConfig(localSocket(r.cfg))
	c.Any = r.cfg.LocalAccess == "any"
	c.LendSize = uint64(r.cfg.LocalLendSize)
	c.CallTimeout = max(c.CallTimeout, longestCall(r.cfg))
	return c
}

func (r *serveRole) start(ctx context.Context) error {
	ln, err := listen(ctx, "local service", bindFor(hostPart(r.cfg.LocalHostname)), r.cfg.Port, "port")
	if err != nil {
		return err
	}
	if err := r.open(ctx, ln); err != nil {
		return errors.Join(err, ln.Close())
	}
	return nil
}

func (r *serveRole) open(ctx context.Context, ln net.Listener) error {
	deps := serve.Deps{Client: r.node.client, Log: r.log}
	if r.node.peer.metrics != nil {
		deps.Metrics = r.node.peer.metrics
	}
	s, err := serve.New(r.config(), deps)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	r.server, r.status, r.done = s, serve.NewStatusServer(s), make(chan struct{})
	go func() {
		defer close(r.done)
		if err := r.status.Serve(ln); err != nil {
			r.fail(errs.Wrap(errs.Internal, "local service: serve the status port", err))
		}
	}()
	r.log.Info("local service is serving", "socket", localSocket(r.cfg), "status", ln.Addr().String())
	return nil
}

func (r *serveRole) stop(ctx context.Context) error {
	if r.server == nil {
		return nil
	}
	err := r.server.Stop(ctx)
	r.status.Stop()
	<-r.done
	return err
}

// LocalOptions are the settings of OpenLocal that are not configuration.
type LocalOptions struct {
	Log *slog.Logger
	// Socket is where to attach; empty is what the configuration says.
	Socket string
	// Buffer is the least size of the local buffer, in bytes.
	Buffer uint64
	// Allocator is where memory to be shared comes from; nil for none.
	Allocator *local.Allocator
}

// OpenLocal attaches to the client that another process of this host serves. RPCFail when
// there is none. Close it.
func OpenLocal(ctx context.Context, cfg config.Config, o LocalOptions) (*local.Client, error) {
	if o.Socket == "" {
		o.Socket = localSocket(cfg.Store)
	}
	c := local.DefaultConfig(o.Socket)
	c.Any = cfg.Store.LocalAccess == "any"
	c.LocalBufferSize = max(uint64(cfg.Store.LocalBufferSize), o.Buffer)
	c.CallTimeout = longestCall(cfg.Store)
	c.Log, c.Allocator = o.Log, o.Allocator
	return local.Attach(ctx, c)
}
