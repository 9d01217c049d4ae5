package engine

import (
	"context"
	"errors"
	"math/bits"
	"sync"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Buffers of up to largestClass bytes are cut from slabs, in powers of two from
// smallestClass up; larger ones have memory of their own. Slabs begin at firstSlab and
// double up to largestSlab, since a device may pin all of a slab when it is registered.
const (
	smallestClass = 8 << 10
	largestClass  = 256 << 20
	firstSlab     = 64 << 20
	largestSlab   = 2 << 30
)

// unknownMemory bounds the managed memory if the size of the machine's memory is unknown.
const unknownMemory = 64 << 30

// managed allocates registered memory. Slabs stay until the engine ends.
type managed struct {
	s     *session
	limit uint64

	mu    sync.Mutex
	next  uint64 // size of the next slab
	total uint64 // of slabs and dedicated blocks, in bytes
	slabs []slab
	lent  map[uint64]loan // by address
}

// slab is registered memory.
type slab struct {
	block *memory.Block
	id    transport.RegionID
	pool  *memory.Pool // nil for a dedicated one
}

// loan is an allocated buffer: a part of a slab, or dedicated memory.
type loan struct {
	part      *memory.Buffer
	dedicated slab
}

func (m *managed) init(s *session) {
	m.s, m.next, m.lent = s, firstSlab, map[uint64]loan{}
	l := memory.ReadLimits(nil)
	m.limit = unknownMemory
	if l.Physical > 0 {
		m.limit = l.Physical
	}
	if l.Cgroup > 0 {
		m.limit = min(m.limit, l.Cgroup)
	}
}

// Allocate returns the address of size registered bytes, whose content is unspecified. It returns
// NoAvailableHandle if all buffers together would exceed the memory of the machine.
func (e *Engine) Allocate(size uint64) (addr uint64, err error) {
	return ask(e, func(s *session) (uint64, error) {
		mem, err := s.managed.allocate(s.ctx, size)
		return memory.AddrOf(mem), err
	})
}

// Release frees a buffer of Allocate by its address. It returns InvalidParams for any other address,
// including that of a freed buffer.
func (e *Engine) Release(addr uint64) error {
	return e.do(func(s *session) error { return s.managed.release(s.ctx, addr) })
}

func (m *managed) allocate(ctx context.Context, size uint64) ([]byte, error) {
	if size == 0 {
		return nil, errs.New(errs.InvalidParams, "allocate a managed buffer", "the size is 0")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if size > largestClass {
		whole, err := m.take(ctx, size)
		if err != nil {
			return nil, err
		}
		m.lent[whole.block.Addr()] = loan{dedicated: whole}
		return whole.block.Bytes()[:size], nil
	}
	class := uint64(smallestClass)
	if size > class {
		class = 1 << bits.Len64(size-1)
	}
	for _, s := range m.slabs {
		if b, ok := s.pool.TryGet(int(class)); ok {
			return m.lend(b, size), nil
		}
	}
	s, err := m.grow(ctx, class)
	if err != nil {
		return nil, err
	}
	b, ok := s.pool.TryGet(int(class))
	if !ok {
		return nil, errs.New(errs.Internal, "allocate a managed buffer", "a new slab of %s has no space for %s", memory.Human(s.block.Size()), memory.Human(class))
	}
	return m.lend(b, size), nil
}

// lend records a buffer. The caller holds mu.
func (m *managed) lend(b *memory.Buffer, size uint64) []byte {
	mem := b.Bytes()[:size:size]
	m.lent[memory.AddrOf(mem)] = loan{part: b}
	return mem
}

// grow adds a slab that has space for a class. The caller holds mu.
func (m *managed) grow(ctx context.Context, class uint64) (slab, error) {
	s, err := m.take(ctx, max(m.next, class))
	if err != nil && m.next > class { // The last part of the machine's memory.
		s, err = m.take(ctx, class)
	}
	if err != nil {
		return slab{}, err
	}
	m.next = min(2*m.next, largestSlab)
	if s.pool, err = memory.NewPool(s.block.Bytes()); err != nil {
		return slab{}, errors.Join(err, m.drop(ctx, s))
	}
	m.slabs = append(m.slabs, s)
	return s, nil
}

// take allocates memory and registers it. The caller holds mu.
func (m *managed) take(ctx context.Context, size uint64) (slab, error) {
	if m.total > m.limit || size > m.limit-m.total {
		return slab{}, errs.WithHint(errs.New(errs.NoAvailableHandle, "allocate a managed buffer", "%s more would be more than the %s there are", memory.Human(size), memory.Human(m.limit)),
			"free buffers that are not used; %s are taken", memory.Human(m.total))
	}
	block, err := m.s.core.Allocate("mooncake-managed", size)
	if err != nil {
		return slab{}, errs.Wrap(errs.NoAvailableHandle, "allocate a managed buffer", err)
	}
	ctx, cancel := context.WithTimeout(ctx, m.s.bound(size))
	defer cancel()
	ids, err := m.s.core.Transfer.RegisterBatch(ctx, []transfer.Memory{transfer.BlockMemory(block, transport.AccessRemote)})
	if err != nil {
		return slab{}, errors.Join(err, block.Close())
	}
	m.total += block.Size()
	return slab{block: block, id: ids[0]}, nil
}

func (m *managed) release(ctx context.Context, addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.lent[addr]
	if !ok {
		return errs.New(errs.InvalidParams, "free a managed buffer", "none that is in use begins at %#x", addr)
	}
	delete(m.lent, addr)
	if l.part != nil {
		l.part.Release()
		return nil
	}
	return m.drop(ctx, l.dedicated)
}

// drop closes memory to peers and frees it. After an error the memory stays mapped. The caller holds
// mu.
func (m *managed) drop(ctx context.Context, s slab) error {
	ctx, cancel := context.WithTimeout(ctx, m.s.bound(0))
	defer cancel()
	if err := m.s.core.Transfer.DeregisterBatch(ctx, []transport.RegionID{s.id}); err != nil {
		return err
	}
	m.total -= s.block.Size()
	return s.block.Close()
}

// close frees everything.
func (m *managed) close(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.slabs
	for _, l := range m.lent {
		if l.part == nil {
			all = append(all, l.dedicated)
		}
	}
	m.slabs, m.lent, m.limit = nil, nil, 0
	for _, s := range all {
		if err := m.drop(ctx, s); err != nil {
			m.s.log.Warn("managed memory stays mapped, since it may still be touched", "size", memory.Human(s.block.Size()), "error", err)
		}
	}
}
