package server

import (
	"context"
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
)

// Module serves a master. It is the last module of the role, so that a client that reaches
// the port finds a complete master.
func Module() fx.Option {
	return fx.Module("api/rpc/server", fx.Provide(provideServer), fx.Invoke(func(*Port) {}))
}

func provideServer(lc fx.Lifecycle, cfg config.Config, d *doors.Doors, m Observer, log *slog.Logger, fail ports.Failer) *Port {
	p := NewPort(cfg.Master, d, m, log, fail)
	lc.Append(fx.StartStopHook(p.Open, func(ctx context.Context) {
		m.Quiesce(ctx)
		p.Close(ctx)
	}))
	return p
}
