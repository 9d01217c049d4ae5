package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// Device is one RDMA device. One that could not be opened only keeps its place.
type Device struct {
	env     *Env
	changed func(cause error) // see New
	// Index is the number of the device in keys.
	Index int
	Name  string
	NUMA  int // -1 for unknown
	// ctx and PD are nil for a device that is not open.
	ctx *verbs.Context
	PD  *verbs.PD
	// Attr has the limits of Reads as the settings lower them.
	Attr verbs.DeviceAttr

	Up   atomic.Bool // work can be given to it
	Lost atomic.Bool // it does not come back before the next start

	build  sync.Mutex // held while objects of the device are made
	asking sync.Mutex // held by Query, so that the latest answer counts
	tags   tagTable

	mu     sync.Mutex
	port   verbs.PortAttr
	addr   gid.Entry
	why    error // why it is not up
	queues []*Queue
	// undestroyed are queue pairs that could not be destroyed. They keep their tags until Close.
	undestroyed []*Pair
}

// New returns a device that is not open yet. changed is called when the device went down or has
// another address, and ends its connections with cause.
func New(env *Env, index int, info verbs.DeviceInfo, changed func(cause error)) *Device {
	return &Device{env: env, changed: changed, Index: index, Name: info.Name, NUMA: numaOf(info.SysfsPath)}
}

// numaOf reads the NUMA node of a device, -1 for unknown.
func numaOf(sysfs string) int {
	text, _ := os.ReadFile(filepath.Join(sysfs, "device", "numa_node")) // Without the file it is empty.
	if v, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && v >= 0 && v <= 1<<14 {
		return v
	}
	return -1
}

// Open opens the device, makes what all connections share, and reads its state. A device that
// cannot be opened frees what it made, keeps its place and is lost; the error says what to do.
func (d *Device) Open(lib *verbs.Lib, info verbs.DeviceInfo) error {
	if err := d.open(lib, info); err != nil {
		d.why = ExplainOpen(err)
		d.Lost.Store(true)
		return d.why
	}
	d.Query()
	return nil
}

func (d *Device) open(lib *verbs.Lib, info verbs.DeviceInfo) (err error) {
	if info.IWARP {
		return fmt.Errorf("%s speaks iWARP, which this transport does not", d.Name)
	}
	if d.ctx, err = lib.OpenDevice(info.Name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			d.Close()
			d.ctx, d.PD = nil, nil
		}
	}()
	d.Attr = d.ctx.Attr
	for _, reads := range []*int{&d.Attr.MaxReadsIn, &d.Attr.MaxReadsOut} {
		if *reads <= 0 {
			*reads = 255
		}
		*reads = max(1, min(d.env.Config.MaxReads, *reads, 255))
	}
	if d.PD, err = d.ctx.AllocPD(); err != nil {
		return err
	}
	for range d.env.Config.CQPerDevice {
		if _, err := d.newQueue(); err != nil {
			return err
		}
	}
	return nil
}

// Opened reports whether Open succeeded.
func (d *Device) Opened() bool { return d.ctx != nil }

// newQueue makes a queue and starts its goroutine.
func (d *Device) newQueue() (*Queue, error) {
	depth := d.env.Config.CQDepth
	if d.Attr.MaxCQE > 0 {
		depth = min(depth, d.Attr.MaxCQE)
	}
	d.mu.Lock()
	vector := len(d.queues)
	d.mu.Unlock()
	cq, err := d.ctx.CreateCQ(depth, vector)
	if err != nil {
		return nil, err
	}
	q := &Queue{env: d.env, tags: &d.tags, cq: cq, failed: d.fail, rouse: make(chan struct{}, 1)}
	d.mu.Lock()
	d.queues = append(d.queues, q)
	d.mu.Unlock()
	d.env.Work.Go(q.run)
	return q, nil
}

// Queues returns the queues of the device. None is removed before Close.
func (d *Device) Queues() []*Queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queues
}

// Close frees what Open made. It may be called on a device that is not open.
func (d *Device) Close() {
	d.mu.Lock()
	undestroyed := d.undestroyed
	d.undestroyed = nil
	d.mu.Unlock()
	d.Destroy(undestroyed)
	note := func(what string, err error) {
		if err != nil {
			d.env.Log.Error("not freed", "device", d.Name, "what", what, "error", err)
		}
	}
	for _, q := range d.Queues() {
		note("completion queue", q.cq.Close())
	}
	if d.PD != nil {
		note("protection domain", d.PD.Close())
	}
	if d.ctx != nil {
		note("device", d.ctx.Close())
	}
}

// Describe returns the device as peers see it.
func (d *Device) Describe() blob.Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return blob.Device{
		Name: d.Name, GID: d.addr.GID, LID: uint32(d.port.LID), MTU: uint16(d.mtu()), NUMA: int16(d.NUMA),
		Speed: d.port.Speed, Usable: d.ctx != nil && !d.Lost.Load(), Up: d.Up.Load(),
	}
}

// Address is the present address of a device.
type Address struct {
	GID        gid.GID
	Text       string // of GID
	Index, MTU int
	LID        uint32
}

// Address returns the present address.
func (d *Device) Address() Address {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Address{GID: d.addr.GID, Text: d.addr.GID.String(), Index: d.addr.Index, MTU: d.mtu(), LID: uint32(d.port.LID)}
}

// mtu is the largest packet that this side can use. The caller holds d.mu.
func (d *Device) mtu() int { return min(d.env.Config.MTU, d.port.ActiveMTU) }

// Port returns the port as it was when it was last up.
func (d *Device) Port() verbs.PortAttr {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.port
}

// Slice is the size of work requests.
func (d *Device) Slice() uint64 {
	size := uint64(d.env.Config.SliceBytes)
	if most := uint64(d.Port().MaxMessage); most > 0 {
		size = min(size, most)
	}
	return size
}

// Limit bounds the connections that this side made, and those that it accepted.
func (d *Device) Limit() int {
	cfg := d.env.Config
	if d.Attr.MaxQP <= 0 {
		return cfg.MaxEndpoints
	}
	return max(1, min(cfg.MaxEndpoints, d.Attr.MaxQP/cfg.QPPerEndpoint))
}

// Unusable says why no work can be given to the device.
func (d *Device) Unusable() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why != nil {
		return d.why
	}
	return errors.New(d.Name + " is being closed")
}

// Stats tell how one device is.
type Stats struct {
	Name, GID string
	GIDIndex  int
	MTU       int
	NUMA      int
	Speed     uint64 // bits per second
	Up        bool
	// Why says why it is not up.
	Why string
}

// Stats returns the present state.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := Stats{
		Name: d.Name, GID: d.addr.GID.String(), GIDIndex: d.addr.Index, MTU: d.mtu(), NUMA: d.NUMA, Speed: d.port.Speed, Up: d.Up.Load(),
	}
	if d.why != nil {
		out.Why = d.why.Error()
	}
	return out
}

// Destroy ends queue pairs that have nothing in flight, or nothing for which a caller waits. It
// reports whether all are gone. Close tries the others again.
func (d *Device) Destroy(pairs []*Pair) bool {
	all := true
	for _, p := range pairs {
		if d.close(p) {
			d.Forget(p)
		} else {
			all = false
		}
	}
	return all
}

// ClosePairs destroys queue pairs that may have work in flight, and reports whether all are gone.
// Their owners get the remaining results; then the caller calls Forget.
func (d *Device) ClosePairs(pairs []*Pair) bool {
	all := true
	for _, p := range pairs {
		all = d.close(p) && all
	}
	return all
}

func (d *Device) close(p *Pair) bool {
	err := p.Close()
	if err == nil {
		return true
	}
	d.env.Log.Error("a queue pair could not be destroyed", "device", d.Name, "error", err)
	d.mu.Lock()
	d.undestroyed = append(d.undestroyed, p)
	d.mu.Unlock()
	return false
}

// Forget ends the delivery of results and events to the owners of queue pairs.
func (d *Device) Forget(pairs ...*Pair) {
	for _, p := range pairs {
		d.tags.drop(p)
	}
}
