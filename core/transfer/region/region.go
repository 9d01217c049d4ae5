// Package region is the table of the local memory that is registered with transports.
package region

import (
	"cmp"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
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
	// Guard decides which writes may begin, of this process and of peers on carriers that ask it; nil for none.
	Guard transport.Guard
	// Grants decides what each peer may read and write, nil for everything. A carrier that cannot ask it does not get the memory,
	// unless it is exempt.
	Grants transport.Grants
}

// Region is one registered range of this process's memory.
type Region struct {
	id       transport.RegionID
	Mem      []byte
	Addr     uint64
	Location string
	Access   transport.Access
	Guard    transport.Guard
	grants   transport.Grants
	fd       int
	offset   int64
	keys     []regionKey // by carrier
	// ready is set once keys is complete and cleared when the region ends; before and after, the
	// region only keeps others out.
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

// KeyOn returns the key of the region on a carrier, nil where peers cannot reach the region.
func (r *Region) KeyOn(carrier int) transport.Key { return r.keys[carrier].get() }

// Registered reports whether the region is registered with a carrier.
func (r *Region) Registered(carrier int) bool { return r.keys[carrier].has() }

// End returns the first address after the region.
func (r *Region) End() uint64 { return r.Addr + uint64(len(r.Mem)) }

// Hold keeps the region from ending until letGo. It returns false for one that has ended.
func (r *Region) Hold() bool {
	r.use.RLock()
	if r.gone {
		r.use.RUnlock()
		return false
	}
	return true
}

// LetGo ends what Hold began.
func (r *Region) LetGo() { r.use.RUnlock() }

// on is the region as the transport of a carrier has it. NotSupported where it is not for that carrier.
func (r *Region) on(c *carrier.Carrier) (transport.Region, error) {
	out := transport.Region{ID: r.id, Mem: r.Mem, FD: r.fd, FDOffset: r.offset, Location: r.Location, Access: r.Access}
	if c.Guards {
		out.Guard = r.Guard
	}
	switch {
	case r.grants == nil || c.Exempt:
	case c.Grants:
		out.Grants = r.grants
	default:
		return out, errs.WithHint(errs.WithClass(errs.ClassPermanent, "", errs.New(errs.NotSupported, "transfer: register memory",
			"the memory is served only for grants of the master, and transport %s does not check them", c.Name)),
			"use a transport with the capability "+string(transport.CapGrants)+", or name data in security.plaintext")
	}
	return out, nil
}

// Table is the table of registered memory, sorted by address. Lookups take no lock.
type Table struct {
	carriers *carrier.Set
	log      *slog.Logger
	lastID   atomic.Uint64

	mu     sync.Mutex
	sorted atomic.Pointer[[]*Region]
}

// NewTable returns an empty table.
func NewTable(carriers *carrier.Set, log *slog.Logger) *Table {
	return &Table{carriers: carriers, log: log}
}

func (t *Table) all() []*Region {
	if p := t.sorted.Load(); p != nil {
		return *p
	}
	return nil
}

// Open returns the regions that peers may use.
func (t *Table) Open() []*Region {
	var open []*Region
	for _, r := range t.all() {
		if r.Access&transport.AccessRemote != 0 && r.ready.Load() {
			open = append(open, r)
		}
	}
	return open
}

// reserve keeps others off a range of memory. InvalidParams when it is empty or overlaps another.
func (t *Table) reserve(m *Memory) (*Region, error) {
	if len(m.Bytes) == 0 {
		return nil, errs.New(errs.InvalidParams, "transfer: register memory", "it is empty")
	}
	r := &Region{
		id: transport.RegionID(t.lastID.Add(1)), Mem: m.Bytes, Addr: memory.AddrOf(m.Bytes),
		Location: cmp.Or(m.Location, matrix.Wildcard), Access: m.Access, Guard: m.Guard, grants: m.Grants, keys: make([]regionKey, len(t.carriers.List)),
		fd: m.FD, offset: m.FDOffset,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.all()
	i := sort.Search(len(old), func(i int) bool { return old[i].End() > r.Addr })
	if i < len(old) && old[i].Addr < r.End() {
		return nil, errs.New(errs.InvalidParams, "transfer: register memory", "[%#x, %#x) overlaps the registered [%#x, %#x)",
			r.Addr, r.End(), old[i].Addr, old[i].End())
	}
	next := slices.Insert(slices.Clone(old), i, r)
	t.sorted.Store(&next)
	return r, nil
}

// remove takes a region out.
func (t *Table) remove(r *Region) {
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
func (t *Table) retire(id transport.RegionID) *Region {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.all() {
		if r.id == id && r.ready.CompareAndSwap(true, false) {
			return r
		}
	}
	return nil
}

// At returns the region that holds addr, nil when none does.
func (t *Table) At(addr uint64) *Region {
	all := t.all()
	i := sort.Search(len(all), func(i int) bool { return all[i].End() > addr })
	if i == len(all) || addr < all[i].Addr || !all[i].ready.Load() {
		return nil
	}
	return all[i]
}
