package staging

import (
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/store"
)

// Module provides the nodes of storage tiers to the client of a member, and the server to its node.
func Module() fx.Option {
	return fx.Module("api/rpc/staging", fx.Provide(func(lc fx.Lifecycle, d *doors.Doors) store.Tiers {
		c := NewClient(Options{Doors: d})
		lc.Append(fx.StopHook(c.Close))
		return c
	}, func(d *doors.Doors) store.NewStageServer {
		return func(s store.Stager, log *slog.Logger) store.StageServer { return NewServer(s, d.Access(), log) }
	}))
}
