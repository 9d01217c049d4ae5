package rdma

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// node implements transport.Transport.
type node struct {
	cfg     settings
	stats   counters
	asleep  atomic.Int64 // reapers that wait for operations under way
	regions regionTable
	tags    tagTable
	changed chan struct{} // see Changed
	// pinning returns how much memory the process may pin; tests replace it.
	pinning func() uint64

	life transportkit.Lifecycle
	tell sync.Mutex // held by report, so that the latest health is told last

	// Set by Start, then constant.
	ctx         context.Context // ends when Stop begins to end background work
	cancel      context.CancelFunc
	host        plugin.Host
	log         *slog.Logger
	incarnation uint64
	devices     []*device
	listener    net.Listener
	addrs       []string
	// traffic counts the goroutines that connections and paths have, work the others. Those
	// of traffic end first.
	traffic, work sync.WaitGroup

	mu     sync.Mutex
	name   string // see Join
	links  map[linkKey]*link
	paths  map[*path]struct{}
	health plugin.Health
	// zombies are queue pairs that could not be destroyed. They keep their place until Stop.
	zombies []*pair
}

var (
	_ transport.Transport = (*node)(nil)
	_ transport.Upstream  = (*node)(nil)
	_ transport.Changing  = (*node)(nil)
	_ StatsReporter       = (*node)(nil)
)

func newNode(cfg Config) *node {
	n := &node{
		cfg: settingsOf(cfg), changed: make(chan struct{}, 1), pinning: pinLimit,
		links: map[linkKey]*link{}, paths: map[*path]struct{}{},
	}
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
		e.Devices = append(e.Devices, d.describe())
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
	p.takeLinks()
	n.paths[p] = struct{}{}
	return p, nil
}

// spawn runs f as a goroutine that wg counts.
func spawn(wg *sync.WaitGroup, f func()) {
	wg.Add(1)
	go func() {
		defer wg.Done()
		f()
	}()
}
