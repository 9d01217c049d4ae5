package memory

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// HostConfig says where a Host takes its buffers from.
type HostConfig struct {
	// Options are those of every mapping. HugePages is a hard requirement for each of them.
	Options Options
	// Arena is the size in bytes of the mapping that buffers are cut from, 0 for none. It is
	// made with the first buffer, and is a wish: where it cannot be had, each buffer is mapped
	// by itself.
	Arena uint64
	// Log takes the warnings; nil discards them.
	Log *slog.Logger
}

// Host hands out buffers of this process that take part in transfers: cut from an arena
// while it has room, else mapped one by one. Safe for concurrent use.
type Host struct {
	cfg HostConfig
	log *slog.Logger

	first  sync.Once // makes the arena, or with Close sees that none is made any more
	arena  atomic.Pointer[Arena]
	full   sync.Once
	direct atomic.Int64
}

// NewHost makes a Host. It maps nothing.
func NewHost(cfg HostConfig) *Host {
	h := &Host{cfg: cfg, log: cfg.Log}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	return h
}

// open makes the arena. That it cannot be had is a warning, never an error.
func (h *Host) open() {
	if h.cfg.Arena == 0 {
		return
	}
	o := h.cfg.Options
	o.Name = "mooncake-arena"
	a, err := NewArena(h.cfg.Arena, o)
	if err != nil {
		h.log.Warn("no arena for host buffers; each is mapped by itself, which is slower", "mmap_arena_pool_size", Human(h.cfg.Arena), "error", err)
		return
	}
	h.arena.Store(a)
}

// Allocate returns size bytes; the errors are those of the function Allocate. The content
// is unspecified. Close gives the block back.
func (h *Host) Allocate(name string, size uint64) (*Block, error) {
	h.first.Do(h.open)
	if a := h.arena.Load(); a != nil && size > 0 {
		if p, ok := a.Take(size); ok {
			return &Block{mem: p.Bytes(), addr: AddrOf(p.Bytes()), fd: a.FD(), offset: p.Offset(), location: a.block.location, piece: p}, nil
		}
		h.full.Do(func() {
			used, pieces := a.Used()
			h.log.Warn("the arena for host buffers has no room for another; it and what comes is mapped by itself, which is slower",
				"asked", Human(size), "arena", Human(a.Size()), "used", Human(used), "buffers", pieces)
		})
	}
	o := h.cfg.Options
	o.Name = name
	b, err := Allocate(size, o)
	if err == nil {
		h.direct.Add(1)
	}
	return b, err
}

// HostStats is where the buffers of a Host came from.
type HostStats struct {
	// Arena is the arena's size and Used what is cut from it, in bytes; Pieces the number of
	// buffers that is.
	Arena, Used uint64
	Pieces      int
	// Direct counts the buffers that were mapped by themselves so far.
	Direct int64
}

// Stats returns where the buffers came from.
func (h *Host) Stats() HostStats {
	s := HostStats{Direct: h.direct.Load()}
	if a := h.arena.Load(); a != nil {
		s.Arena = a.Size()
		s.Used, s.Pieces = a.Used()
	}
	return s
}

// Close gives the arena back; every buffer must have been closed. Repeatable.
func (h *Host) Close() error {
	h.first.Do(func() {})
	if a := h.arena.Load(); a != nil {
		return errs.Wrap(errs.Internal, "memory: close host buffers", a.Close())
	}
	return nil
}
