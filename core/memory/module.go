package memory

import (
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
)

// Module provides the host memory of a node or client. The transfer engine closes it, after the
// transports no longer touch it.
func Module() fx.Option { return fx.Module("memory", fx.Provide(provideHost)) }

func provideHost(cfg config.Config, log *slog.Logger) (*Host, error) {
	return FromConfig(cfg.Store, log)
}

// FromConfig makes the host memory that the settings describe. It maps nothing yet.
func FromConfig(s config.Store, log *slog.Logger) (*Host, error) {
	pages, err := HugePagesOf(s)
	if err != nil {
		return nil, err
	}
	arena := uint64(s.MmapArenaPoolSize)
	if s.DisableMmapArena {
		arena = 0
	}
	return NewHost(HostConfig{
		Options: Options{HugePages: pages, Placement: OnNode(s.NUMANode, s.NUMAStrict), Log: log},
		Arena:   arena,
		Log:     log,
	}), nil
}

// HugePagesOf returns the page size of a node's memory, HugeNone unless huge pages are on.
func HugePagesOf(s config.Store) (HugePages, error) {
	if !s.UseHugepage {
		return HugeNone, nil
	}
	return ParseHugePages(s.HugepageSize)
}
