package app

import (
	"io/fs"
	"log/slog"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
)

// LimitGo limits how much memory the Go runtime of this process takes, as the configuration asks. role is that of the
// process. A library leaves the runtime to its program. root is that of memory.ReadLimits.
func LimitGo(root fs.FS, cfg config.Config, role config.Role, log *slog.Logger) {
	l := memory.GoLimit{Fixed: uint64(cfg.Memory.Limit()), Off: cfg.Memory.Off()}
	if role == config.RoleStore || role == config.RoleService {
		l.Outside = outsideGo(cfg.Store)
	}
	l.Apply(root, log)
}

// outsideGo is what a node maps, in bytes. Control groups do not count huge pages as memory.
func outsideGo(s config.Store) uint64 {
	if s.UseHugepage {
		return 0
	}
	arena := s.MmapArenaPoolSize
	if s.DisableMmapArena {
		arena = 0
	}
	return uint64(s.GlobalSegmentSize) + max(uint64(s.LocalBufferSize), uint64(arena))
}
