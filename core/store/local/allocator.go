package local

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store/local/internal/shm"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Allocator hands out memory that a Client can share. Its memory is of this process: it
// stays valid whatever becomes of clients and services, until Free. The zero value gives
// ordinary pages. Safe for concurrent use.
type Allocator struct {
	// HugePages backs the memory by reserved huge pages.
	HugePages memory.HugePages

	mu     sync.Mutex
	blocks map[uint64]*block // by address
}

// block is one allocation.
type block struct {
	mapping *shm.Mapping
	asked   int // bytes; the mapping is rounded up to pages
	users   int // clients it is registered with
}

// Alloc returns size bytes, zeroed. InvalidParams for size 0.
func (a *Allocator) Alloc(size uint64) ([]byte, error) {
	m, err := shm.Create("mooncake-shared", size, a.HugePages)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.blocks == nil {
		a.blocks = map[uint64]*block{}
	}
	a.blocks[memory.AddrOf(m.Bytes())] = &block{mapping: m, asked: int(size)}
	return m.Bytes()[:size], nil
}

// Free gives memory back that starts where an allocation does; it must not be used any more.
// InvalidParams for other memory, and while it is registered.
func (a *Allocator) Free(mem []byte) error {
	addr := memory.AddrOf(mem)
	a.mu.Lock()
	b := a.blocks[addr]
	if b == nil || b.users > 0 {
		a.mu.Unlock()
		if b == nil {
			return errs.New(errs.InvalidParams, "shared memory: free", "nothing was allocated at %#x", addr)
		}
		return errs.New(errs.InvalidParams, "shared memory: free", "the memory at %#x is registered; unregister it first", addr)
	}
	delete(a.blocks, addr)
	a.mu.Unlock()
	return b.mapping.Close()
}

// use notes that mem, which has to be exactly one allocation, is registered.
func (a *Allocator) use(mem []byte) (*block, error) {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if b := a.blocks[memory.AddrOf(mem)]; b != nil && (len(mem) == b.asked || len(mem) == len(b.mapping.Bytes())) {
			b.users++
			return b, nil
		}
	}
	return nil, errs.New(errs.InvalidParams, "local client: register buffer",
		"%d bytes at %#x are not exactly one allocation of the allocator of shared memory", len(mem), memory.AddrOf(mem))
}

func (a *Allocator) unuse(b *block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.users--
}
