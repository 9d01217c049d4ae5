package transfer

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// region is one registered range of this process's memory.
type region struct {
	id       transport.RegionID
	mem      []byte
	addr     uint64
	location string
	access   transport.Access
	fd       int
	offset   int64
	keys     []keyring // by carrier
	// ready is set once keys is complete and cleared when the region ends; before and after,
	// the region only keeps others out.
	ready atomic.Bool

	// use is held shared by copies within the process and exclusively to end the region.
	use  sync.RWMutex
	gone bool
}

// keyring is the key of a region on one carrier, which may change while others look.
type keyring struct {
	key atomic.Pointer[transport.Key] // nil where it is not registered
	// later: it could not be registered with a transport that was away, and is when that is
	// back.
	later atomic.Bool
}

// has reports whether the region is registered with the carrier.
func (k *keyring) has() bool { return k.key.Load() != nil }

// get returns what peers need, empty where they cannot reach the region.
func (k *keyring) get() transport.Key {
	if p := k.key.Load(); p != nil {
		return *p
	}
	return nil
}

func (k *keyring) set(key transport.Key) { k.key.Store(&key) }

func (r *region) end() uint64 { return r.addr + uint64(len(r.mem)) }

// regions is the table, sorted by address. Lookups take no lock.
type regions struct {
	mu     sync.Mutex
	sorted atomic.Pointer[[]*region]
}

func (t *regions) all() []*region {
	if p := t.sorted.Load(); p != nil {
		return *p
	}
	return nil
}

// add inserts a region; InvalidParams when it overlaps another.
func (t *regions) add(r *region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.all()
	i := sort.Search(len(old), func(i int) bool { return old[i].end() > r.addr })
	if i < len(old) && old[i].addr < r.end() {
		return errs.New(errs.InvalidParams, "transfer: register memory", "[%#x, %#x) overlaps the registered [%#x, %#x)",
			r.addr, r.end(), old[i].addr, old[i].end())
	}
	next := slices.Insert(slices.Clone(old), i, r)
	t.sorted.Store(&next)
	return nil
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

// retire closes a region to new users; nil when no region has the id, or another call ends
// it already. The region stays in the table until it is removed.
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
