package memory

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Registry holds the regions of a transport.
type Registry struct {
	// PinLimit returns how many bytes the process may pin; tests replace it.
	PinLimit func() uint64

	config      *config.Settings
	devices     []*device.Device
	incarnation uint64
	table       table
	count       atomic.Int64
}

// New returns a registry, which is of use after Open.
func New(cfg *config.Settings) *Registry { return &Registry{PinLimit: pinLimit, config: cfg} }

// Open sets the devices, and the incarnation that keys carry.
func (g *Registry) Open(devices []*device.Device, incarnation uint64) {
	g.devices, g.incarnation = devices, incarnation
}

// Count returns the number of regions in use.
func (g *Registry) Count() int64 { return g.count.Load() }

// List returns the regions in use, by address.
func (g *Registry) List() []*Region { return g.table.list() }

// Get returns a region, nil for none.
func (g *Registry) Get(id transport.RegionID) *Region { return g.table.get(id) }

// Find returns the region that holds all of [addr, addr+size), nil for none.
func (g *Registry) Find(addr, size uint64) *Region { return g.table.find(addr, size) }
