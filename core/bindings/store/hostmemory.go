package store

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/bindings/lasterr"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// HostMemory is memory that other processes of this host can map. It belongs to the process and
// outlives every store. It is safe for concurrent use.
type HostMemory struct {
	source func() settings.Source

	failure lasterr.Record

	mu     sync.Mutex
	memory *local.Allocator // nil until first use
}

// NewHostMemory makes host memory. The first use reads the settings, which decide whether it comes
// from huge pages.
func NewHostMemory(source func() settings.Source) *HostMemory { return &HostMemory{source: source} }

func (h *HostMemory) allocator() (*local.Allocator, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.memory != nil {
		return h.memory, nil
	}
	loaded, err := settings.Load(h.source(), nil)
	if err != nil {
		return nil, err
	}
	a := &local.Allocator{}
	if s := loaded.Config.Store; s.UseHugepage {
		if a.HugePages, err = memory.ParseHugePages(s.HugepageSize); err != nil {
			return nil, errs.Wrap(errs.InvalidParams, "store.hugepage_size", err)
		}
	}
	h.memory = a
	return a, nil
}

// Alloc returns the address of size zeroed bytes, or 0 after an error.
func (h *HostMemory) Alloc(size uint64) uint64 {
	h.failure.Begin()
	a, err := h.allocator()
	if err == nil {
		var mem []byte
		if mem, err = a.Alloc(size); err == nil {
			return memory.AddrOf(mem)
		}
	}
	h.failure.Note(0, err)
	return 0
}

// Free frees memory and returns 0 or a code: InvalidParams while the memory is registered.
func (h *HostMemory) Free(addr uint64) Code {
	h.failure.Begin()
	mem, ok := At(addr, 1)
	a, err := h.allocator()
	switch {
	case err != nil:
	case !ok:
		err = errs.New(errs.InvalidParams, "shared memory: free", "nothing was allocated at %#x", addr)
	default:
		err = a.Free(mem)
	}
	if err == nil {
		return 0
	}
	h.failure.Note(0, err)
	return codeOf(err)
}

// LastError returns why the last call of this thread failed. It is empty after a success; see
// package lasterr.
func (h *HostMemory) LastError() string { return h.failure.Text() }
