package memory

import (
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Registry holds the regions of a transport. Safe for concurrent use.
type Registry struct {
	// PinLimit returns how many bytes the process may pin; tests replace it.
	PinLimit func() uint64

	config      *config.Settings
	devices     []*device.Device
	incarnation uint64
	count       atomic.Int64 // regions in use

	mu       sync.Mutex
	byID     map[transport.RegionID]*Region
	reserved []*Region // by start, never overlapping; also those not in use yet
	// active is what operations look into, by start. It is replaced, never changed.
	active atomic.Pointer[[]*Region]
}

// New returns a registry, which is of use after Open.
func New(cfg *config.Settings) *Registry { return &Registry{PinLimit: pinLimit, config: cfg} }

// Open sets the devices, and the incarnation that keys carry.
func (g *Registry) Open(devices []*device.Device, incarnation uint64) {
	g.devices, g.incarnation = devices, incarnation
}

// Count returns the number of regions in use.
func (g *Registry) Count() int64 { return g.count.Load() }
