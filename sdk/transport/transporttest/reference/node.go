package reference

import (
	"context"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// magic begins the blob of an endpoint; the name follows.
const magic = "reference:"

type state int

const (
	created state = iota
	running
	stopped
)

// node implements transport.Transport.
type node struct {
	net *Network
	cfg Config

	mu          sync.Mutex
	state       state
	name        string
	incarnation uint64
	regions     map[transport.RegionID]*region
	keys        map[uint64]*region // by secret
	paths       map[*path]struct{}
}

// region is registered memory. A goroutine holds use for reading while it touches the memory. end
// takes use for writing, and so waits for all of them.
type region struct {
	transport.Region
	secret uint64
	use    sync.RWMutex
	closed bool // guarded by use
}

// Start implements plugin.Component.
func (n *node) Start(ctx context.Context, _ plugin.Host) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if n.state != created {
		return errs.New(errs.UnavailableInCurrentStatus, "start", "the transport was started or stopped before")
	}
	n.state, n.incarnation = running, random()
	n.regions, n.keys, n.paths = map[transport.RegionID]*region{}, map[uint64]*region{}, map[*path]struct{}{}
	n.name = n.net.join(n.cfg.Name, n)
	return nil
}

// Stop implements plugin.Component.
func (n *node) Stop(ctx context.Context) error {
	n.mu.Lock()
	was := n.state
	n.state = stopped
	paths, regions := n.paths, n.regions
	n.paths, n.regions, n.keys = nil, nil, nil
	n.mu.Unlock()
	if was == running {
		n.net.leave(n.name, n)
	}
	for p := range paths {
		_ = p.Close(ctx)
	}
	for _, r := range regions {
		r.end()
	}
	return nil
}

// Endpoint implements transport.Transport.
func (n *node) Endpoint() transport.Endpoint {
	return transport.Endpoint{Blob: []byte(magic + n.name), Incarnation: n.incarnation}
}

// alive returns an error if the node is not running. The caller holds n.mu.
func (n *node) alive(what string) error {
	if n.state != running {
		return errs.New(errs.UnavailableInCurrentStatus, what, "the transport is not running")
	}
	return nil
}

// Register implements transport.Transport.
func (n *node) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.alive("register"); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.ID == 0 || len(r.Mem) == 0 || n.regions[r.ID] != nil {
		return nil, errs.New(errs.InvalidParams, "register", "region %d of %d bytes: the ID must be new and not 0, and there must be bytes", r.ID, len(r.Mem))
	}
	for _, other := range n.regions {
		if overlaps(r.Mem, other.Mem) {
			return nil, errs.New(errs.InvalidParams, "register", "region %d overlaps region %d", r.ID, other.ID)
		}
	}
	x := &region{Region: r, secret: random()}
	n.regions[r.ID], n.keys[x.secret] = x, x
	return key{n.incarnation, x.secret, uint64(len(r.Mem))}.encode(), nil
}

// Deregister implements transport.Transport.
func (n *node) Deregister(_ context.Context, id transport.RegionID) error {
	n.mu.Lock()
	if err := n.alive("deregister"); err != nil {
		n.mu.Unlock()
		return err
	}
	r := n.regions[id]
	if r == nil {
		n.mu.Unlock()
		return errs.New(errs.InvalidParams, "deregister", "region %d is not registered", id)
	}
	delete(n.regions, id)
	delete(n.keys, r.secret)
	n.mu.Unlock()
	r.end()
	return nil
}

// end closes the region. It returns once no goroutine touches the memory, which does not take long
// because each copy is bounded.
func (r *region) end() {
	r.use.Lock()
	defer r.use.Unlock()
	r.closed = true
}

// Dial implements transport.Transport.
func (n *node) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	name, ok := strings.CutPrefix(string(peer.Blob), magic)
	if _, known := n.net.find(name); !ok || !known {
		return nil, errs.WithClass(errs.ClassTransientPeer, "dial", errs.New(errs.InvalidParams, "", "there is no node %q", peer.Blob))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.alive("dial"); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &path{from: n, name: name, incarnation: peer.Incarnation, waiting: map[*transport.Op]*time.Timer{}}
	n.paths[p] = struct{}{}
	return p, nil
}

// local reports whether memory lies inside one registered region.
func (n *node) local(b []byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.regions {
		if start, at := address(r.Mem), address(b); at >= start && at-start <= uintptr(len(r.Mem)-len(b)) && len(b) <= len(r.Mem) {
			return true
		}
	}
	return false
}

// open returns the region of a secret.
func (n *node) open(incarnation, secret uint64) *region {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.incarnation != incarnation {
		return nil
	}
	return n.keys[secret]
}

func overlaps(a, b []byte) bool {
	x, y := address(a), address(b)
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
