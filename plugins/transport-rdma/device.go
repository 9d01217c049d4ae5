package rdma

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/cache"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// device is one RDMA device, or the place of one that could not be opened.
type device struct {
	n     *node
	index int
	name  string
	numa  int
	// ctx and pd are nil for a mere place.
	ctx  *verbs.Context
	pd   *verbs.PD
	attr verbs.DeviceAttr

	up   atomic.Bool // whether work can be given to it
	lost atomic.Bool // it does not come back before the next start

	build  sync.Mutex // held while objects of the device are made
	asking sync.Mutex // held by ask, so that the latest answer counts

	mu       sync.Mutex
	port     verbs.PortAttr
	addr     gid.Entry
	why      error // why it is not up
	queues   []*queue
	conns    *cache.Set[*conn]
	accepts  int // places of connections of peers, also of those in the making
	accepted map[*accepted]struct{}
}

func newDevice(n *node, index int, info verbs.DeviceInfo) *device {
	policy := cache.SIEVE
	if n.cfg.EndpointStore == storeFIFO {
		policy = cache.FIFO
	}
	return &device{
		n: n, index: index, name: info.Name, numa: numaOf(info.SysfsPath),
		conns: cache.New[*conn](policy), accepted: map[*accepted]struct{}{},
	}
}

// numaOf reads the NUMA node of a device, -1 for unknown.
func numaOf(sysfs string) int {
	text, err := os.ReadFile(filepath.Join(sysfs, "device", "numa_node"))
	if err != nil {
		return -1
	}
	v, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || v < 0 || v > 1<<14 {
		return -1
	}
	return v
}

// open opens the device and makes what all connections share. A failure leaves nothing
// behind but the place.
func (d *device) open(lib *verbs.Lib, info verbs.DeviceInfo) (err error) {
	if info.IWARP {
		return fmt.Errorf("%s speaks iWARP, which this transport does not", d.name)
	}
	if d.ctx, err = lib.OpenDevice(info.Name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			d.close()
			d.ctx, d.pd = nil, nil
		}
	}()
	d.attr = d.ctx.Attr()
	if d.pd, err = d.ctx.AllocPD(); err != nil {
		return err
	}
	for range d.n.cfg.CQPerDevice {
		if _, err := d.newQueue(); err != nil {
			return err
		}
	}
	return nil
}

// ask finds the present state of port and address. changed says that peers must
// learn of it.
func (d *device) ask() (changed bool) {
	d.asking.Lock()
	defer d.asking.Unlock()
	port, addr, why := d.look()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost.Load() {
		return false
	}
	changed = d.up.Load() != (why == nil) || why == nil && (addr.GID != d.addr.GID || addr.Index != d.addr.Index || port.LID != d.port.LID)
	d.why = why
	if why == nil {
		d.port, d.addr = port, addr
	}
	d.up.Store(why == nil)
	return changed
}

// look reads port and address; why says why the device cannot be used now.
func (d *device) look() (port verbs.PortAttr, addr gid.Entry, why error) {
	cfg := &d.n.cfg
	port, err := d.ctx.QueryPort(cfg.IBPort)
	if err != nil {
		return port, addr, err
	}
	if port.State != verbs.PortActive {
		return port, addr, fmt.Errorf("port %d of %s is down", cfg.IBPort, d.name)
	}
	if cfg.GIDIndex >= 0 {
		g, err := d.ctx.GID(cfg.IBPort, cfg.GIDIndex)
		if err != nil || g.Zero() {
			return port, addr, advised(advice.NoGID(d.name, cfg.IBPort, cfg.GIDIndex))
		}
		return port, entryOf(g), nil
	}
	table, err := d.ctx.GIDs(cfg.IBPort)
	if err != nil {
		return port, addr, err
	}
	entries := make([]gid.Entry, len(table))
	for i, g := range table {
		entries[i] = entryOf(g)
	}
	addr, ok := gid.Best(entries)
	if !ok {
		return port, addr, advised(advice.NoGID(d.name, cfg.IBPort, -1))
	}
	return port, addr, nil
}

func entryOf(g verbs.GID) gid.Entry {
	e := gid.Entry{Index: g.Index, GID: g.Addr, Type: gid.Type(g.Type)}
	if g.NetIndex > 0 {
		e.Netdev = "if" + strconv.Itoa(g.NetIndex)
		if i, err := net.InterfaceByIndex(g.NetIndex); err == nil {
			e.Netdev = i.Name
		}
	}
	return e
}

// describe returns the device as peers see it.
func (d *device) describe() blob.Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return blob.Device{
		Name: d.name, GID: d.addr.GID, LID: uint32(d.port.LID), MTU: uint16(d.mtu()), NUMA: int16(d.numa),
		Speed: d.port.Speed, Usable: d.ctx != nil && !d.lost.Load(), Up: d.up.Load(),
	}
}

// mtu is the largest packet that this side can use. d.mu is held.
func (d *device) mtu() int { return min(d.n.cfg.MTU, d.port.ActiveMTU) }

// slice is the size of work requests.
func (d *device) slice() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	size := uint64(d.n.cfg.SliceBytes)
	if most := uint64(d.port.MaxMessage); most > 0 {
		size = min(size, most)
	}
	return size
}

// limit bounds the connections that this side made, and those that it accepted.
func (d *device) limit() int {
	if d.attr.MaxQP <= 0 {
		return d.n.cfg.MaxEndpoints
	}
	return max(1, min(d.n.cfg.MaxEndpoints, d.attr.MaxQP/d.n.cfg.QPPerEndpoint))
}

// speed is the nominal speed in bits per second.
func (d *device) speed() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.port.Speed
}

// unusable says why no work can be given to the device.
func (d *device) unusable() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why == nil {
		return fmt.Errorf("%s is being closed", d.name)
	}
	return d.why
}
