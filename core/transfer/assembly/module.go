package assembly

import (
	"context"
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/core/transfer"
)

// Running is a transfer engine that exists between Start and Stop of the process.
type Running interface {
	// Transfer returns nil before the start.
	Transfer() *transfer.Engine
}

// Module provides the transfer engine of this process.
func Module() fx.Option { return fx.Module("transfer/assembly", fx.Provide(provideEngine)) }

func provideEngine(lc fx.Lifecycle, cfg config.Config, d *doors.Doors, naming Naming, catalog *pluginhost.Catalog, devices *topology.Chooser,
	host *memory.Host, log *slog.Logger,
) (*Engine, Running, error) {
	e, err := New(cfg, naming, Deps{Catalog: catalog, Devices: devices, Host: host, Doors: d, Log: log})
	if err != nil {
		return nil, nil, err
	}
	lc.Append(fx.StartStopHook(e.Start, e.Stop))
	return e, e, nil
}

// SharedModule provides the engine of another composition of this process in place of an own one.
// hold is called at the start and release at the stop.
func SharedModule(e Running, hold func() error, release func(context.Context) error) fx.Option {
	return fx.Module("transfer/assembly", fx.Provide(func(lc fx.Lifecycle) Running {
		lc.Append(fx.StartStopHook(hold, release))
		return e
	}))
}
