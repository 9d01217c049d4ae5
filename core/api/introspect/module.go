package introspect

import (
	"context"
	"log/slog"
	"os"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/profiling"
	"github.com/mooncake-go/mooncake/core/pluginhost"
)

// Settings are what Module needs to know of the process.
type Settings struct {
	Admin config.Admin
	Debug config.Debug
	// Role and Version are shown on the socket.
	Role, Version string
	// Library says that the process belongs to another program. It gets a socket only if the
	// configuration asks for one, and runs without it if the socket cannot be made.
	Library bool
}

// Module serves the admin socket. It precedes the modules of the role, so that the socket exists
// while the role starts and until it has stopped. If the socket cannot be made at a path that the
// configuration names, the start fails; otherwise the role runs without it, with a warning. The
// module also samples waits for profiles, if the configuration asks for them.
func Module() fx.Option {
	return fx.Module("api/introspect", fx.Provide(provideSocket), fx.Invoke(func(*adminSocket) {}, showPlugins))
}

// adminSocket is the admin socket of this process, or none.
type adminSocket struct {
	Settings
	host   Host
	log    *slog.Logger
	server *Server // nil without a socket
	sample func()  // ends the sampling of waits, nil without
}

func provideSocket(lc fx.Lifecycle, settings Settings, log *slog.Logger) *adminSocket {
	a := &adminSocket{Settings: settings, host: noPlugins{}, log: log}
	lc.Append(fx.StartStopHook(a.start, a.stop))
	return a
}

func showPlugins(a *adminSocket, in struct {
	fx.In
	Catalog *pluginhost.Catalog `optional:"true"` // of a role that has plugins
},
) {
	if in.Catalog != nil {
		a.host = in.Catalog
	}
}

func (a *adminSocket) start(ctx context.Context) error {
	ln, err := a.listen(ctx)
	if err != nil {
		return err
	}
	d := a.Debug
	profiles := d.Pprof == config.PprofSocket || d.Pprof == config.PprofHTTP
	if ln != nil {
		a.server = NewServer(a.host, a.Role, a.Version, a.log)
		if profiles {
			a.server.ServeProfiles(profiling.New())
			a.log.Info("profiles are served on the admin socket", "path", ln.Path())
		}
		a.server.Start(ln)
		a.log.Debug("admin socket is serving", "path", ln.Path())
	}
	if profiles && !a.Library && (d.BlockProfileRate != 0 || d.MutexProfileFraction != 0) {
		a.sample = profiling.Sample(d.BlockProfileRate, d.MutexProfileFraction)
	}
	return nil
}

// listen returns nil if there is no socket.
func (a *adminSocket) listen(ctx context.Context) (*Listener, error) {
	var ln *Listener
	var err error
	optional := a.Library
	switch at := a.Admin.Socket; {
	case at == config.SocketOff, at == "", at == config.SocketAuto && a.Library:
		return nil, nil
	case at == config.SocketAuto, at == config.SocketOn:
		optional = true
		ln, err = Listen(ctx, StandardPlaces(os.Getenv), a.Role)
	default:
		ln, err = ListenAt(ctx, at)
	}
	if err != nil && optional {
		a.log.Warn("no admin socket: commands of this machine do not reach this process", "error", err)
		return nil, nil
	}
	return ln, err
}

func (a *adminSocket) stop(ctx context.Context) error {
	if a.sample != nil {
		a.sample()
	}
	if a.server == nil {
		return nil
	}
	return a.server.Stop(ctx)
}

// noPlugins is the host of a role without plugins.
type noPlugins struct{}

// Instances implements Host.
func (noPlugins) Instances() []pluginhost.Instance { return nil }
