package memwire

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// region is registered memory of the host.
type region struct {
	id         uint64
	start, end uintptr
	handle     uint64 // identifies it to the plugin, 0 for foreign memory
	ready      bool   // operations may use it
}

// Regions holds the registered regions. A handle is never used again, so a late operation cannot
// reach other memory. Safe for concurrent use.
type Regions struct {
	mu    sync.Mutex
	all   []region                 // sorted by start, never overlapping
	ready atomic.Pointer[[]region] // the regions of all that are ready
}

// Add adds a region, after the checks that every plugin makes. Operations can use it after Ready.
func (t *Regions) Add(id uint64, mem []byte, handle uint64, op string) error {
	switch {
	case id == 0:
		return errs.New(errs.InvalidParams, op, "region ID is 0, which means no region")
	case len(mem) == 0:
		return errs.New(errs.InvalidParams, op, "region %d is empty", id)
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	end := start + uintptr(len(mem))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.all {
		if x.id == id {
			return errs.New(errs.InvalidParams, op, "region ID %d is in use", id)
		}
		if x.start < end && start < x.end {
			return errs.New(errs.InvalidParams, op, "region %d (%d bytes) overlaps region %d", id, len(mem), x.id)
		}
	}
	i, _ := search(t.all, start)
	t.all = slices.Insert(t.all, i, region{id: id, start: start, end: end, handle: handle})
	return nil
}

// Ready allows or forbids operations on a region. It returns the handle of the region.
func (t *Regions) Ready(id uint64, ready bool) (handle uint64, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.index(id)
	if i < 0 {
		return 0, false
	}
	t.all[i].ready = ready
	t.publish()
	return t.all[i].handle, true
}

// Handle returns the handle of a region.
func (t *Regions) Handle(id uint64) (handle uint64, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.index(id)
	if i < 0 {
		return 0, false
	}
	return t.all[i].handle, true
}

// Remove forgets a region.
func (t *Regions) Remove(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := t.index(id); i >= 0 {
		t.all = slices.Delete(t.all, i, i+1)
		t.publish()
	}
}

// Count returns the number of regions.
func (t *Regions) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

func (t *Regions) index(id uint64) int {
	return slices.IndexFunc(t.all, func(r region) bool { return r.id == id })
}

func (t *Regions) publish() {
	ready := make([]region, 0, len(t.all))
	for _, r := range t.all {
		if r.ready {
			ready = append(ready, r)
		}
	}
	t.ready.Store(&ready)
}

// Find returns the handle of the region that contains all of b, and where in it b begins.
func (t *Regions) Find(b []byte) (handle, at uint64, found bool) {
	all := t.ready.Load()
	if all == nil {
		return 0, 0, false
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	i, exact := search(*all, start)
	if !exact {
		i--
	}
	if i < 0 || start+uintptr(len(b)) > (*all)[i].end {
		return 0, 0, false
	}
	return (*all)[i].handle, uint64(start - (*all)[i].start), true
}

// search finds the first region that starts at or after an address.
func search(all []region, at uintptr) (int, bool) {
	lo, hi := 0, len(all)
	for lo < hi {
		if mid := (lo + hi) / 2; all[mid].start < at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(all) && all[lo].start == at
}
