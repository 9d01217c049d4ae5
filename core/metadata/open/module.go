package open

import (
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
)

// CleanerModule provides what removes the metadata of dead nodes, nil unless the configuration of
// the master asks for it.
func CleanerModule() fx.Option { return fx.Module("metadata/open", fx.Provide(provideCleaner)) }

func provideCleaner(lc fx.Lifecycle, cfg config.Config, embedded *memory.Store, d *doors.Doors, log *slog.Logger) (*Cleaner, error) {
	if !cfg.Master.EnableMetadataCleanupOnTimeout {
		return nil, nil
	}
	c, err := NewCleaner(embedded, cfg.Store, d, log)
	if err == nil {
		lc.Append(fx.StopHook(c.Close))
	}
	return c, err
}
