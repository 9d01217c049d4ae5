package app

import (
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	metahttp "github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
)

// Metadata is the HTTP metadata server as a role of its own.
func Metadata(cfg config.Config) fx.Option {
	return fx.Options(
		fx.Provide(func() *memory.Store { return memory.New(memory.Limits{}) }),
		fx.Invoke(func(lc fx.Lifecycle, log *slog.Logger, store *memory.Store) {
			httpFace{what: "metadata server", host: cfg.Metadata.Host, port: cfg.Metadata.Port, flag: "port"}.serve(lc, log, metahttp.NewHandler(store))
		}),
	)
}
