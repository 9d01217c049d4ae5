package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/kvevents"
	"github.com/mooncake-go/mooncake/core/master/quota"
	metahttp "github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// The master meets its clients and its admin port as interfaces.
var (
	_ store.Master = (*master.Service)(nil)
	_ rest.Master  = (*master.Service)(nil)
)

// Master is the master with its admin port and, where the configuration asks for it, an
// embedded metadata server. Where the configuration names a network interface that has no
// address, it is an error before anything starts.
func Master(cfg config.Config, builtins []plugin.Factory) fx.Option {
	return fx.Options(
		fx.Provide(func(log *slog.Logger) (*masterRole, error) { return newMaster(cfg, builtins, log) }),
		fx.Provide(func(m *masterRole) *pluginhost.Catalog { return m.catalog }),
		fx.Invoke(func(lc fx.Lifecycle, m *masterRole, log *slog.Logger, fail Failer) { m.serve(lc, log, fail) }),
	)
}

// masterRole is the master with the plugins it works with.
type masterRole struct {
	cfg     config.Config
	catalog *pluginhost.Catalog
	evict   evict.Policy
	alloc   alloc.Allocator
	evictID plugin.ID
	allocID plugin.ID
	service *master.Service
	tenants *quota.Keeper // nil with one tenant only
	// published is what the embedded metadata server serves, nil without one.
	published *memory.Store
	cleaner   *cleaner            // nil where the keys of dead nodes stay
	events    *kvevents.Publisher // nil where nobody wants to know what comes and goes
}

func newMaster(cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*masterRole, error) {
	cfg, err := ResolveInterface(cfg)
	if err != nil {
		return nil, err
	}
	m := &masterRole{
		cfg:     cfg,
		evictID: plugin.ID{Kind: plugin.KindEvict, Name: cfg.Master.Evictor},
		allocID: plugin.ID{Kind: plugin.KindAlloc, Name: cfg.Master.Allocator},
	}
	if m.catalog, err = Catalog(cfg, builtins, log); err != nil {
		return nil, err
	}
	bounds := pluginhost.Supervision{CallTimeout: master.PluginTimeout}
	// A restarted plugin process is refilled by the service, which is made after it.
	m.evict, err = m.catalog.OpenEvict(context.Background(), m.evictID, spec(cfg.Plugins.Get(m.evictID)), pluginhost.EvictOptions{
		Supervision: bounds,
		Replay:      func(ctx context.Context, p evict.Policy) error { return m.service.ReplayEvict(ctx, p) },
	})
	if err != nil {
		return nil, fmt.Errorf("master.evictor: %w", err)
	}
	m.alloc, err = m.catalog.OpenAlloc(context.Background(), m.allocID, spec(cfg.Plugins.Get(m.allocID)), pluginhost.AllocOptions{
		Supervision: bounds,
		Replay:      func(ctx context.Context, a alloc.Allocator) error { return m.service.ReplayAlloc(ctx, a) },
	})
	if err != nil {
		return nil, fmt.Errorf("master.allocator: %w", err)
	}
	return m, m.assemble(log)
}

// assemble makes the service and what it works with beside its plugins.
func (m *masterRole) assemble(log *slog.Logger) (err error) {
	c := m.cfg.Master
	if c.EnableMultiTenants {
		if m.tenants, err = quota.OpenKeeper(c.TenantQuotaConnectorURI, log); err != nil {
			return err
		}
	}
	if c.EnableHTTPMetadataServer {
		m.published = memory.New(memory.Limits{})
	}
	deps := master.Deps{Alloc: m.alloc, Evict: m.evict, Log: log, Tenants: m.tenants}
	if c.EnableMetadataCleanupOnTimeout {
		if m.cleaner, err = newCleaner(m.published, m.cfg.Store, log); err != nil {
			return err
		}
		deps.Expired = m.cleaner.remove
	}
	if c.EnableKVEvents {
		if m.events, err = kvevents.New(kvEventsConfig(c, log)); err != nil {
			return fmt.Errorf("master.kv_events_bind_endpoint: %w", err)
		}
		deps.Announcer = m.events
	}
	m.service, err = master.New(masterConfig(c), deps)
	return err
}

// serve adds the hooks: plugins first, then the service, then its faces; the RPC port
// last, so that whoever reaches it finds everything there.
func (m *masterRole) serve(lc fx.Lifecycle, log *slog.Logger, fail Failer) {
	lc.Append(fx.Hook{
		OnStart: func(ctx context.Context) error { return m.evict.Start(ctx, newHost(m.evictID, log)) },
		OnStop:  func(ctx context.Context) error { return errors.Join(m.evict.Stop(ctx), m.catalog.Close(ctx)) },
	})
	lc.Append(fx.Hook{
		OnStart: func(ctx context.Context) error { return m.alloc.Start(ctx, newHost(m.allocID, log)) },
		OnStop:  m.alloc.Stop,
	})
	if m.cleaner != nil {
		lc.Append(fx.Hook{OnStop: m.cleaner.close})
	}
	if m.events != nil {
		lc.Append(fx.Hook{OnStart: m.events.Start, OnStop: m.events.Stop})
	}
	lc.Append(fx.Hook{OnStart: m.service.Start, OnStop: m.service.Stop})
	if m.tenants != nil {
		reloadOnHangup(lc, m.tenants, log)
	}
	c := m.cfg.Master
	if m.published != nil {
		httpFace{what: "metadata server", host: c.HTTPMetadataServerHost, port: c.HTTPMetadataServerPort, flag: "http_metadata_server_port"}.
			serve(lc, log, metahttp.NewHandler(m.published))
	}
	httpFace{what: "admin port", host: c.MetricsHost, port: c.MetricsPort, flag: "metrics_port", profiles: onPort(m.cfg.Debug)}.
		serve(lc, log, rest.NewHandler(m.service, rest.Options{Logger: log}))
	m.serveRPC(lc, log, fail)
}

func (m *masterRole) serveRPC(lc fx.Lifecycle, log *slog.Logger, fail Failer) {
	c := m.cfg.Master
	server := server.New(m.service, server.Options{Logger: log, IdleTimeout: c.RPCConnTimeout, Observe: m.service.ObserveRPC, Foreign: m.service.ObserveForeign})
	lc.Append(fx.Hook{
		OnStart: func(ctx context.Context) error {
			ln, err := listen(ctx, "master", c.RPCAddress, c.RPCPort, "rpc_port")
			if err != nil {
				return err
			}
			if !c.RPCEnableTCPNoDelay {
				ln = delayed{ln}
			}
			go func() {
				if err := server.Serve(ln); err != nil {
					fail(fmt.Errorf("master: the RPC server on %s ended: %w", ln.Addr(), err))
				}
			}()
			log.Info("master is serving", "address", ln.Addr().String())
			return nil
		},
		OnStop: func(ctx context.Context) error { server.Stop(ctx); return nil },
	})
}
