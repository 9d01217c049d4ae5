// Package region is the table of the local memory that is registered with transports.
package region

import (
	"sync"
	"sync/atomic"

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

// Region is one registered range of this process's memory.
type Region struct {
	id       transport.RegionID
	Mem      []byte
	Addr     uint64
	Location string
	Access   transport.Access
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

// forTransport is the region as transports have it.
func (r *Region) forTransport() transport.Region {
	return transport.Region{ID: r.id, Mem: r.Mem, FD: r.fd, FDOffset: r.offset, Location: r.Location, Access: r.Access}
}
