package app

import (
	"log/slog"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
)

// maxRegistration is the largest piece that one registration with a transport may have, in
// bytes. A larger segment is mounted in pieces.
const maxRegistration = 1 << 40

// hugePages is the page size of the node's memory, HugeNone unless huge pages are on.
func hugePages(s config.Store) (memory.HugePages, error) {
	if !s.UseHugepage {
		return memory.HugeNone, nil
	}
	return memory.ParseHugePages(s.HugepageSize)
}

// hostMemory is where the buffers of a node or client come from. It maps nothing yet.
func hostMemory(s config.Store, log *slog.Logger) (*memory.Host, error) {
	pages, err := hugePages(s)
	if err != nil {
		return nil, err
	}
	arena := uint64(s.MmapArenaPoolSize)
	if s.DisableMmapArena {
		arena = 0
	}
	return memory.NewHost(memory.HostConfig{
		Options: memory.Options{HugePages: pages, Placement: memory.OnNode(s.NUMANode, s.NUMAStrict), Log: log},
		Arena:   arena,
		Log:     log,
	}), nil
}
