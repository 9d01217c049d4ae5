package pluginhost

import (
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Module provides the catalog. It closes the catalog after the components that use its plugins.
func Module() fx.Option { return fx.Module("pluginhost", fx.Provide(provideCatalog)) }

func provideCatalog(lc fx.Lifecycle, cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*Catalog, error) {
	c, err := FromConfig(cfg, builtins, log)
	if err == nil {
		lc.Append(fx.StopHook(c.Close))
	}
	return c, err
}
