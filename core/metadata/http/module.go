package http

import (
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
)

// Port is the port of a metadata server. It has no handler in a master without one.
type Port struct{ *ports.HTTP }

// Module provides the content of a metadata server and serves it. Its address is that of the
// section metadata.
func Module() fx.Option {
	return fx.Module("metadata/http", fx.Provide(provideStore, providePort), fx.Invoke(func(Port) {}))
}

// EmbeddedModule is Module inside a master. The content is nil, and nothing is served, unless the
// configuration of the master asks for a metadata server.
func EmbeddedModule() fx.Option {
	return fx.Module("metadata/http", fx.Provide(provideEmbedded, provideEmbeddedPort), fx.Invoke(func(Port) {}))
}

func provideStore() *memory.Store { return memory.New(memory.Limits{}) }

func provideEmbedded(cfg config.Config) *memory.Store {
	if !cfg.Master.EnableHTTPMetadataServer {
		return nil
	}
	return provideStore()
}

func providePort(lc fx.Lifecycle, cfg config.Config, store *memory.Store, d *doors.Doors, log *slog.Logger) Port {
	return newPort(lc, store, d, log, cfg.Metadata.Host, cfg.Metadata.Port, "port")
}

func provideEmbeddedPort(lc fx.Lifecycle, cfg config.Config, store *memory.Store, d *doors.Doors, log *slog.Logger) Port {
	return newPort(lc, store, d, log, cfg.Master.HTTPMetadataServerHost, cfg.Master.HTTPMetadataServerPort, "http_metadata_server_port")
}

func newPort(lc fx.Lifecycle, store *memory.Store, d *doors.Doors, log *slog.Logger, host string, port int, flag string) Port {
	p := Port{&ports.HTTP{What: "metadata server", Host: host, Port: port, Flag: flag, Log: log, Doors: d, Door: config.DoorMetadata}}
	if store != nil {
		p.Handler = NewHandler(store, d.Access())
	}
	lc.Append(fx.StartStopHook(p.Start, p.Stop))
	return p
}
