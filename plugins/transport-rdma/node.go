package rdma

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/inbound"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/memory"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// node implements transport.Transport.
type node struct {
	cfg     config.Settings
	stats   counters
	regions *memory.Registry
	changed chan struct{} // see Changed

	life transportkit.Lifecycle
	tell sync.Mutex // held by report, so that the latest health is told last

	// Set by Start, then constant.
	ctx         context.Context // ends when Stop begins to end background work
	cancel      context.CancelFunc
	host        plugin.Host
	log         *slog.Logger
	incarnation uint64
	listener    net.Listener
	addrs       []string
	devices     []*adapter
	shared      device.Env
	rails       rail.Table
	inbound     inbound.Server
	// traffic counts the goroutines that connections and paths have, shared.Work the others. Those
	// of traffic end first.
	traffic sync.WaitGroup

	mu     sync.Mutex
	name   string // see Join
	paths  map[*path]struct{}
	health plugin.Health
}

var (
	_ transport.Transport = (*node)(nil)
	_ transport.Upstream  = (*node)(nil)
	_ transport.Changing  = (*node)(nil)
)

func newNode(cfg config.Config) *node {
	n := &node{cfg: config.Of(cfg), changed: make(chan struct{}, 1), paths: map[*path]struct{}{}}
	n.regions = memory.New(&n.cfg)
	n.life.Init(&n.mu, "transport/rdma")
	return n
}

// Changed implements transport.Changing.
func (n *node) Changed() <-chan struct{} { return n.changed }

// touch tells the host that endpoint, segment or rails may be different now.
func (n *node) touch() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// running is an error outside Start and Stop.
func (n *node) running(op string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life.Require(op)
}

// begin is running for calls that Stop waits for: without an error the caller ends it with
// traffic.Done.
func (n *node) begin(op string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.life.Require(op); err != nil {
		return err
	}
	n.traffic.Add(1)
	return nil
}

// Endpoint implements transport.Transport.
func (n *node) Endpoint() transport.Endpoint {
	n.mu.Lock()
	began := !n.life.New() && n.incarnation != 0
	n.mu.Unlock()
	if !began {
		return transport.Endpoint{}
	}
	text, err := n.endpoint()
	if err != nil { // Start has tried with the longest form.
		n.log.Error("endpoint", "error", err)
		return transport.Endpoint{}
	}
	return transport.Endpoint{Blob: text, Incarnation: n.incarnation}
}

func (n *node) endpoint() ([]byte, error) {
	e := blob.Endpoint{Incarnation: n.incarnation, Addrs: n.addrs}
	for _, d := range n.devices {
		e.Devices = append(e.Devices, d.Describe())
	}
	return e.Encode()
}

// Dial implements transport.Transport. It returns at once; the first operation connects.
func (n *node) Dial(_ context.Context, to transport.Endpoint) (transport.Path, error) {
	const op = "transport/rdma: dial"
	if err := n.running(op); err != nil {
		return nil, err
	}
	e, err := blob.DecodeEndpoint(to.Blob)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	if e.Incarnation != to.Incarnation {
		return nil, errs.New(errs.InvalidParams, op, "incarnation %d does not belong to this endpoint", to.Incarnation)
	}
	if e.Upstream() && !n.cfg.Upstream {
		return nil, errs.New(errs.NotSupported, op, "%s is a node of another implementation, and upstream is false", e.Server)
	}
	p := newPath(n, &e, string(to.Blob))
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.life.Require(op); err != nil {
		return nil, err
	}
	p.takeRails()
	n.paths[p] = struct{}{}
	return p, nil
}

// Register implements transport.Transport.
func (n *node) Register(_ context.Context, in transport.Region) (transport.Key, error) {
	if err := n.begin("transport/rdma: register"); err != nil {
		return nil, err
	}
	defer n.traffic.Done()
	return n.regions.Register(in)
}

// Deregister implements transport.Transport.
func (n *node) Deregister(ctx context.Context, id transport.RegionID) error {
	if err := n.begin("transport/rdma: deregister"); err != nil {
		return err
	}
	defer n.traffic.Done()
	return n.regions.Deregister(ctx, id, &n.traffic)
}

// counters is the part of Stats that paths count.
type counters struct {
	opsOK, opsFailed, opsQuarantined atomic.Uint64
}
