package memtransport

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Network connects transports by name.
type Network struct {
	mu          sync.Mutex
	nodes       map[string]*Transport
	incarnation atomic.Uint64
}

// NewNetwork returns an empty network.
func NewNetwork() *Network { return &Network{nodes: map[string]*Transport{}} }

// Transport is one node of a Network. It serves peers from New on. Start does nothing, and Stop
// takes it off the network.
type Transport struct {
	net         *Network
	name        string
	incarnation uint64
	hook        atomic.Pointer[Hook]
	dead        atomic.Bool
	sums        atomic.Bool
	reapOnly    atomic.Bool
	dials       atomic.Int64
	reaped      atomic.Int64
	polled      atomic.Int64
	depth       int

	mu      sync.RWMutex
	regions map[transport.RegionID]transport.Region
}

var _ transport.Transport = (*Transport)(nil)

// New adds a node. It replaces a node of the same name, as a restarted process does.
func (n *Network) New(name string) *Transport {
	t := &Transport{net: n, name: name, incarnation: n.incarnation.Add(1), depth: 1 << 10, regions: map[transport.RegionID]transport.Region{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.nodes[name]; old != nil {
		old.dead.Store(true)
	}
	n.nodes[name] = t
	return t
}

// SetHook installs a fault hook for operations that this node submits; nil removes it.
func (t *Transport) SetHook(h Hook) {
	if h == nil {
		t.hook.Store(nil)
		return
	}
	t.hook.Store(&h)
}

// SetDepth bounds the operations in flight on a path; further ones get back-pressure.
func (t *Transport) SetDepth(n int) { t.depth = n }

// SetSums makes operations that this node submits compute checksums if they ask for it. Paths that
// are already dialled report the same Extras as before.
func (t *Transport) SetSums(on bool) { t.sums.Store(on) }

// SetReapOnly makes paths that are dialled from now on return all completions from Reap. By default
// they deliver completions where these occur, as transport.Extras allow.
func (t *Transport) SetReapOnly(on bool) { t.reapOnly.Store(on) }

// Reaped returns how many completions Reap has returned.
func (t *Transport) Reaped() int { return int(t.reaped.Load()) }

// Polled returns how often the engine polled for a completion.
func (t *Transport) Polled() int { return int(t.polled.Load()) }

// Kill takes the node off the network, as kill -9 does.
func (t *Transport) Kill() { t.dead.Store(true) }

// Dials returns how many paths this node opened.
func (t *Transport) Dials() int { return int(t.dials.Load()) }

// Start implements plugin.Component.
func (t *Transport) Start(context.Context, plugin.Host) error { return nil }

// Stop implements plugin.Component.
func (t *Transport) Stop(context.Context) error { t.Kill(); return nil }

// Endpoint implements transport.Transport.
func (t *Transport) Endpoint() transport.Endpoint {
	return transport.Endpoint{Blob: []byte(t.name), Incarnation: t.incarnation}
}

// Register implements transport.Transport.
func (t *Transport) Register(_ context.Context, r transport.Region) (transport.Key, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.regions[r.ID]; ok || r.ID == 0 || len(r.Mem) == 0 {
		return nil, errs.New(errs.InvalidParams, "memtransport: register", "region %d is empty or in use", r.ID)
	}
	t.regions[r.ID] = r
	key := binary.LittleEndian.AppendUint64(nil, uint64(r.ID))
	return binary.LittleEndian.AppendUint64(key, t.incarnation), nil
}

// Deregister implements transport.Transport.
func (t *Transport) Deregister(_ context.Context, id transport.RegionID) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.regions[id]; !ok {
		return errs.New(errs.InvalidParams, "memtransport: deregister", "no region %d", id)
	}
	delete(t.regions, id)
	return nil
}

// Dial implements transport.Transport.
func (t *Transport) Dial(_ context.Context, peer transport.Endpoint) (transport.Path, error) {
	t.dials.Add(1)
	return &path{from: t, peer: peer, remotes: map[transport.RemoteID]transport.RegionID{}, wake: make(chan struct{}, 1)}, nil
}

// find returns the live node behind an endpoint.
func (n *Network) find(ep transport.Endpoint) (*Transport, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.nodes[string(ep.Blob)]
	if t == nil || t.dead.Load() || t.incarnation != ep.Incarnation {
		return nil, errs.WithClass(errs.ClassTransientPeer, "memtransport: reach "+string(ep.Blob), errs.New(errs.TransferFail, "", "the node is gone"))
	}
	return t, nil
}
