package topology

import (
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
)

// Module provides the choice of RDMA devices. It reads the machine when a transport asks for them.
func Module() fx.Option { return fx.Module("topology", fx.Provide(provideChooser)) }

func provideChooser(cfg config.Config, log *slog.Logger) *Chooser { return NewChooser(cfg.Store, log) }
