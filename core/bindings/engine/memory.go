package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// The errors of Register and Unregister wrap these, beside their codes.
var (
	// ErrOverlap means that a part of the memory is registered already.
	ErrOverlap = errors.New("the memory overlaps registered memory")
	// ErrNotRegistered means that no registered memory begins at the address.
	ErrNotRegistered = errors.New("no registered memory begins there")
)

// region is memory that the program registered.
type region struct {
	id         transport.RegionID
	addr, size uint64
}

// regions holds the memory that the program registered, by its first address.
type regions struct {
	mu  sync.Mutex
	all []region // sorted by addr
}

func (r *regions) find(addr uint64) (int, bool) {
	return slices.BinarySearchFunc(r.all, addr, func(g region, a uint64) int { return cmp.Compare(g.addr, a) })
}

// add adds a region. It returns false if the region overlaps another.
func (r *regions) add(g region) bool {
	i, _ := r.find(g.addr)
	if i > 0 && r.all[i-1].addr+r.all[i-1].size > g.addr || i < len(r.all) && g.addr+g.size > r.all[i].addr {
		return false
	}
	r.all = slices.Insert(r.all, i, g)
	return true
}

// clear forgets all regions and returns their ids.
func (r *regions) clear() []transport.RegionID {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]transport.RegionID, len(r.all))
	for i, g := range r.all {
		ids[i] = g.id
	}
	r.all = nil
	return ids
}

// Register registers memory with this engine, and opens it to peers if remote is set: all of the
// list or nothing. location is where the memory is ("cpu:0", "cuda:1"), "" or "*" for unknown.
// Register returns InvalidParams for empty memory, and with ErrOverlap if a part of the memory is
// registered already. Adjacent memory is allowed.
func (e *Engine) Register(list [][]byte, location string, remote bool) error {
	access := transport.AccessLocal
	if remote {
		access = transport.AccessRemote
	}
	return e.do(func(s *session) error { return s.register(list, location, access) })
}

func (s *session) register(list [][]byte, location string, access transport.Access) error {
	pieces := make([]transfer.Memory, len(list))
	var plan regions
	total := uint64(0)
	// One call at a time: the second finds the memory that the first registered.
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	plan.all = slices.Clone(s.own.all)
	for i, mem := range list {
		if len(mem) == 0 {
			return errs.New(errs.InvalidParams, "register memory", "piece %d of %d is empty", i, len(list))
		}
		g := region{addr: memory.AddrOf(mem), size: uint64(len(mem))}
		total += g.size
		if !plan.add(g) {
			return errs.WithHint(errs.Wrap(errs.InvalidParams, "register memory", ErrOverlap),
				"%d bytes at %#x; register each range once, or unregister it first", g.size, g.addr)
		}
		pieces[i] = transfer.Memory{Bytes: mem, FD: -1, Location: location, Access: access}
	}
	if len(pieces) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.bound(total))
	defer cancel()
	ids, err := s.core.Transfer.RegisterBatch(ctx, pieces)
	if err != nil {
		return err
	}
	for i, mem := range list {
		k, _ := plan.find(memory.AddrOf(mem))
		plan.all[k].id = ids[i]
	}
	s.own.all = plan.all
	return nil
}

// Unregister closes the memory that begins at each of the addresses: all or none. It returns
// InvalidParams with ErrNotRegistered if an address is not registered, or named twice. After
// another error, transfers may still access the memory.
func (e *Engine) Unregister(addrs []uint64) error {
	return e.do(func(s *session) error { return s.unregister(addrs) })
}

func (s *session) unregister(addrs []uint64) error {
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	rest := regions{all: slices.Clone(s.own.all)}
	ids := make([]transport.RegionID, len(addrs))
	for i, addr := range addrs {
		k, found := rest.find(addr)
		if !found {
			return errs.WithHint(errs.Wrap(errs.InvalidParams, "unregister memory", ErrNotRegistered), "%#x", addr)
		}
		ids[i] = rest.all[k].id
		rest.all = slices.Delete(rest.all, k, k+1)
	}
	if len(ids) == 0 {
		return nil
	}
	s.own.all = rest.all
	ctx, cancel := context.WithTimeout(s.ctx, s.bound(0))
	defer cancel()
	return s.core.Transfer.DeregisterBatch(ctx, ids)
}
