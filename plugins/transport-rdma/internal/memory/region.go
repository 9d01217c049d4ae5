// Package memory registers memory with the devices of a transport, and finds the registration of
// an address.
package memory

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Region is registered memory.
type Region struct {
	ID       transport.RegionID
	Start    uint64 // address
	Location string
	Access   transport.Access
	GPU      bool // the processor cannot read it
	// MRs holds for each device the registrations of the chunks; nil for a device that is not open.
	// Constant once the region is usable.
	MRs   [][]*verbs.MR
	mem   []byte
	chunk uint64
	state atomic.Uint32

	mu   sync.Mutex
	exit *withdrawal // the latest; nil before the first, and after a failed one was reported
}

// The states of a region, in their order.
const (
	registering uint32 = iota
	usable
	leaving
)

// Usable reports whether operations may use the region. It is false again once the region is being
// withdrawn.
func (r *Region) Usable() bool { return r.state.Load() == usable }

func (r *Region) end() uint64 { return r.Start + uint64(len(r.mem)) }

// Lookup returns the local key of the registration that addr is in, and how many bytes the
// registration has from there.
func (r *Region) Lookup(addr uint64, device int) (lkey uint32, left uint64) {
	i := (addr - r.Start) / r.chunk
	mr := r.MRs[device][i]
	return mr.LKey(), mr.Addr() + mr.Len() - addr
}

// withdraw ends the registrations on all devices. It may be tried again after an error.
func (r *Region) withdraw() error {
	failures := make([]error, len(r.MRs))
	var wg sync.WaitGroup
	for i, mrs := range r.MRs {
		wg.Go(func() {
			for _, mr := range mrs {
				failures[i] = errors.Join(failures[i], mr.Close())
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// AddressOf returns the address of the first byte.
func AddressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// OnGPU reports whether a location names the memory of another device than the processor:
// "cuda:0", but not "cpu:0", "*" or "segments:...".
func OnGPU(location string) bool {
	kind, _, ok := strings.Cut(location, ":")
	return ok && kind != "cpu" && kind != "segments"
}
