package transfer

import (
	"cmp"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Memory is memory of this process that is to be registered.
type Memory struct {
	Bytes []byte
	// FD is a descriptor of the shared memory that Bytes maps from FDOffset on, -1 for none.
	FD       int
	FDOffset int64
	Location string
	Access   transport.Access
}

// BlockMemory describes a block to Register.
func BlockMemory(b *memory.Block, access transport.Access) Memory {
	return Memory{Bytes: b.Bytes(), FD: b.FD(), FDOffset: b.Offset(), Location: b.Location(), Access: access}
}

// region is one registered range of this process's memory.
type region struct {
	id       transport.RegionID
	mem      []byte
	addr     uint64
	location string
	access   transport.Access
	fd       int
	offset   int64
	keys     []regionKey // by carrier
	// ready is set once keys is complete and cleared when the region ends; before and after,
	// the region only keeps others out.
	ready atomic.Bool

	// use is held shared by copies within the process and exclusively to end the region.
	use  sync.RWMutex
	gone bool
}

// regionKey is the key of a region on one carrier. It may change while it is read.
type regionKey struct {
	key atomic.Pointer[transport.Key] // nil where the region is not registered
	// later: the transport was away when the region was to be registered, and it is to be
	// registered when the transport is back.
	later atomic.Bool
}

// has reports whether the region is registered with the carrier.
func (k *regionKey) has() bool { return k.key.Load() != nil }

// get returns the key for peers, empty where they cannot reach the region.
func (k *regionKey) get() transport.Key {
	if p := k.key.Load(); p != nil {
		return *p
	}
	return nil
}

func (k *regionKey) set(key transport.Key) { k.key.Store(&key) }

// keyOn returns the key of the region on a carrier, nil where peers cannot reach the region.
func (r *region) keyOn(carrier int) transport.Key { return r.keys[carrier].get() }

// registered reports whether the region is registered with a carrier.
func (r *region) registered(carrier int) bool { return r.keys[carrier].has() }

func (r *region) end() uint64 { return r.addr + uint64(len(r.mem)) }

// hold keeps the region from ending until letGo. It returns false for one that has ended.
func (r *region) hold() bool {
	r.use.RLock()
	if r.gone {
		r.use.RUnlock()
		return false
	}
	return true
}

func (r *region) letGo() { r.use.RUnlock() }

// forTransport is the region as transports have it.
func (r *region) forTransport() transport.Region {
	return transport.Region{ID: r.id, Mem: r.mem, FD: r.fd, FDOffset: r.offset, Location: r.location, Access: r.access}
}

// regions is the table of registered memory, sorted by address. Lookups take no lock.
type regions struct {
	carriers *carrierSet
	log      *slog.Logger
	lastID   atomic.Uint64

	mu     sync.Mutex
	sorted atomic.Pointer[[]*region]
}

func newRegions(carriers *carrierSet, log *slog.Logger) *regions {
	return &regions{carriers: carriers, log: log}
}

func (t *regions) all() []*region {
	if p := t.sorted.Load(); p != nil {
		return *p
	}
	return nil
}

// open returns the regions that peers may use.
func (t *regions) open() []*region {
	var open []*region
	for _, r := range t.all() {
		if r.access&transport.AccessRemote != 0 && r.ready.Load() {
			open = append(open, r)
		}
	}
	return open
}

// reserve keeps others off a range of memory. InvalidParams when it is empty or overlaps another.
func (t *regions) reserve(m *Memory) (*region, error) {
	if len(m.Bytes) == 0 {
		return nil, errs.New(errs.InvalidParams, "transfer: register memory", "it is empty")
	}
	r := &region{
		id: transport.RegionID(t.lastID.Add(1)), mem: m.Bytes, addr: memory.AddrOf(m.Bytes),
		location: cmp.Or(m.Location, matrix.Wildcard), access: m.Access, keys: make([]regionKey, len(t.carriers.list)),
		fd: m.FD, offset: m.FDOffset,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.all()
	i := sort.Search(len(old), func(i int) bool { return old[i].end() > r.addr })
	if i < len(old) && old[i].addr < r.end() {
		return nil, errs.New(errs.InvalidParams, "transfer: register memory", "[%#x, %#x) overlaps the registered [%#x, %#x)",
			r.addr, r.end(), old[i].addr, old[i].end())
	}
	next := slices.Insert(slices.Clone(old), i, r)
	t.sorted.Store(&next)
	return r, nil
}

// remove takes a region out.
func (t *regions) remove(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.all()
	if i := slices.Index(old, r); i >= 0 {
		next := slices.Delete(slices.Clone(old), i, i+1)
		t.sorted.Store(&next)
	}
}

// retire closes a region to new users. It returns nil when no region has the id, or another call
// ends it already. The region stays in the table until it is removed.
func (t *regions) retire(id transport.RegionID) *region {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.all() {
		if r.id == id && r.ready.CompareAndSwap(true, false) {
			return r
		}
	}
	return nil
}

// at returns the region that holds addr, nil when none does.
func (t *regions) at(addr uint64) *region {
	all := t.all()
	i := sort.Search(len(all), func(i int) bool { return all[i].end() > addr })
	if i == len(all) || addr < all[i].addr || !all[i].ready.Load() {
		return nil
	}
	return all[i]
}
