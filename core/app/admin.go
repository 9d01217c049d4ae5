package app

import (
	"context"
	"log/slog"
	"os"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/introspect"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/profiling"
	"github.com/mooncake-go/mooncake/core/pluginhost"
)

// Admin is the admin socket of a role. It goes before the role, so that it is there while
// the role starts and until it has stopped. What cannot be served at the place of
// somebody's choice is an error; otherwise the role goes on without, with a warning. Waits
// are noted for profiles while the role runs, where the configuration asks for it.
func Admin(cfg config.Config, role, version string) fx.Option {
	return fx.Invoke(func(in adminDeps) {
		var host introspect.Host = noPlugins{}
		if in.Catalog != nil {
			host = in.Catalog
		}
		a := &adminSocket{cfg: cfg.Admin, debug: cfg.Debug, role: role, version: version, host: host, log: in.Log}
		in.LC.Append(fx.Hook{OnStart: a.start, OnStop: a.stop})
		in.LC.Append(sampling(cfg.Debug))
	})
}

type adminDeps struct {
	fx.In
	LC      fx.Lifecycle
	Log     *slog.Logger
	Catalog *pluginhost.Catalog `optional:"true"` // of a role that has plugins
}

// adminSocket is the admin socket of this process, or none.
type adminSocket struct {
	cfg           config.Admin
	debug         config.Debug
	role, version string
	host          introspect.Host
	log           *slog.Logger
	server        *introspect.Server // nil while there is none
}

func (a *adminSocket) start(ctx context.Context) error {
	var ln *introspect.Listener
	var err error
	switch a.cfg.Socket {
	case config.SocketOff, "":
		return nil
	case config.SocketAuto, config.SocketOn:
		if ln, err = introspect.Listen(ctx, introspect.StandardPlaces(os.Getenv), a.role); err != nil {
			a.log.Warn("no admin socket: commands of this machine do not reach this process", "error", err)
			return nil
		}
	default:
		if ln, err = introspect.ListenAt(ctx, a.cfg.Socket); err != nil {
			return err
		}
	}
	a.server = introspect.NewServer(a.host, a.role, a.version, a.log)
	if served(a.debug) {
		a.server.ServeProfiles(profiling.New())
		a.log.Info("profiles are served on the admin socket", "path", ln.Path())
	}
	a.server.Start(ln)
	a.log.Debug("admin socket is serving", "path", ln.Path())
	return nil
}

func (a *adminSocket) stop(ctx context.Context) error {
	if a.server == nil {
		return nil
	}
	return a.server.Stop(ctx)
}

// noPlugins is a role without plugins.
type noPlugins struct{}

// Instances implements introspect.Host.
func (noPlugins) Instances() []pluginhost.Instance { return nil }

// openAdmin is the admin socket of a library in somebody's process: only where it is asked
// for, and never a reason to fail.
func openAdmin(ctx context.Context, cfg config.Config, role string, host introspect.Host, log *slog.Logger) *adminSocket {
	if cfg.Admin.Socket == config.SocketAuto {
		cfg.Admin.Socket = config.SocketOff
	}
	a := &adminSocket{cfg: cfg.Admin, debug: cfg.Debug, role: role, version: "library", host: host, log: log}
	if err := a.start(ctx); err != nil {
		log.Warn("no admin socket: commands of this machine do not reach this process", "error", err)
	}
	return a
}
