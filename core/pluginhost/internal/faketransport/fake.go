// Package faketransport is a transport in memory for the tests of package pluginhost. It dies as
// a process does, and completes its operations afterwards.
package faketransport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Net connects transports.
type Net struct {
	mu   sync.Mutex
	last uint64
	at   map[string]*Transport
}

// NewNet makes an empty net.
func NewNet() *Net { return &Net{at: map[string]*Transport{}} }

// Hooks change how a transport behaves. Each may be nil.
type Hooks struct {
	Start    func() error
	Register func(transport.Region) error
	// Deregister is called before the region is removed.
	Deregister func(transport.RegionID) error
	Dial       func(transport.Endpoint) error
	Import     func(transport.Key) error
}

// Transport implements transport.Transport and transport.Upstream.
type Transport struct {
	net   *Net
	Hooks Hooks

	mu      sync.Mutex
	cond    *sync.Cond
	inc     uint64
	name    string
	joins   int
	dead    bool // the transport does not work any more
	held    bool // operations are queued and not carried out
	ended   bool
	regions map[transport.RegionID]transport.Region
	order   []transport.RegionID
	paths   map[*Path]bool
	changed chan struct{}
	dials   int
	working sync.WaitGroup // bytes are being moved
}

type key struct {
	Inc uint64
	ID  transport.RegionID
	Len int
}

// New makes a transport on a net.
func (n *Net) New(h Hooks) *Transport {
	t := &Transport{net: n, Hooks: h, regions: map[transport.RegionID]transport.Region{}, paths: map[*Path]bool{}, changed: make(chan struct{}, 1)}
	t.cond = sync.NewCond(&t.mu)
	return t
}

// Start implements plugin.Component.
func (t *Transport) Start(context.Context, plugin.Host) error {
	if t.Hooks.Start != nil {
		if err := t.Hooks.Start(); err != nil {
			return err
		}
	}
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	t.net.last++
	t.inc = t.net.last
	t.net.at[fmt.Sprint(t.inc)] = t
	return nil
}

// Stop implements plugin.Component.
func (t *Transport) Stop(context.Context) error {
	t.mu.Lock()
	paths := t.paths
	t.paths = map[*Path]bool{}
	t.mu.Unlock()
	for p := range paths {
		p.close()
	}
	t.Die()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.regions, t.order = map[transport.RegionID]transport.Region{}, nil // It holds no regions any more.
	return nil
}

// Die makes the transport stop working without completing anything.
func (t *Transport) Die() {
	t.mu.Lock()
	t.dead = true
	t.cond.Broadcast()
	t.mu.Unlock()
	t.net.mu.Lock()
	delete(t.net.at, fmt.Sprint(t.inc))
	t.net.mu.Unlock()
}

// Hold makes the transport queue operations without carrying them out, until Hold(false).
func (t *Transport) Hold(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = on
	t.cond.Broadcast()
}

// Ended marks the transport's process as gone, and completes the operations in flight.
func (t *Transport) Ended() {
	t.Die()
	t.working.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for p := range t.paths {
		for _, o := range p.queue {
			c := transport.Completion{ID: o.ID, Status: transport.Failed, Err: errDead("lost")}
			if o.taken && o.Kind == transport.Write {
				c.Status = transport.Quarantined
			}
			p.finish(c)
		}
		p.queue = nil
	}
}

func errDead(op string) error {
	return errs.WithClass(errs.ClassTransientPath, "fake: "+op, errs.New(errs.RPCFail, "", "its process is gone"))
}

// Endpoint implements transport.Transport.
func (t *Transport) Endpoint() transport.Endpoint {
	return transport.Endpoint{Blob: []byte(fmt.Sprint(t.inc)), Incarnation: t.inc}
}

// Changed implements transport.Changing.
func (t *Transport) Changed() <-chan struct{} { return t.changed }

// Regions lists the registered regions in the order of their registration.
func (t *Transport) Regions() []transport.RegionID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]transport.RegionID(nil), t.order...)
}

// Joined returns the name that was joined, and how often Join was called.
func (t *Transport) Joined() (string, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.name, t.joins
}

// Open returns the number of open paths.
func (t *Transport) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.paths)
}

// Register implements transport.Transport.
func (t *Transport) Register(_ context.Context, g transport.Region) (transport.Key, error) {
	if t.Hooks.Register != nil {
		if err := t.Hooks.Register(g); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return nil, errDead("register")
	}
	if _, ok := t.regions[g.ID]; ok {
		return nil, errs.New(errs.InvalidParams, "fake", "region %d is registered", g.ID)
	}
	t.regions[g.ID] = g
	t.order = append(t.order, g.ID)
	return json.Marshal(key{t.inc, g.ID, len(g.Mem)})
}

// Deregister implements transport.Transport.
func (t *Transport) Deregister(_ context.Context, id transport.RegionID) error {
	if t.Hooks.Deregister != nil {
		if err := t.Hooks.Deregister(id); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return errDead("deregister")
	}
	if _, ok := t.regions[id]; !ok {
		return errs.New(errs.InvalidParams, "fake", "no region %d", id)
	}
	delete(t.regions, id)
	for i, o := range t.order {
		if o == id {
			t.order = append(t.order[:i:i], t.order[i+1:]...)
			break
		}
	}
	return nil
}

// Join implements transport.Upstream.
func (t *Transport) Join(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name = name
	t.joins++
}

// Segment implements transport.Upstream.
func (t *Transport) Segment() transport.Segment {
	return transport.Segment{Protocol: "tcp", DataPort: int(t.inc)}
}

// Translate implements transport.Upstream.
func (t *Transport) Translate(p transport.PeerSegment) (transport.Endpoint, []transport.Key, error) {
	return transport.Endpoint{Blob: []byte(p.Name)}, nil, nil
}

// Accept implements transport.Upstream.
func (t *Transport) Accept(_ context.Context, request []byte) ([]byte, error) { return request, nil }

// Dial implements transport.Transport.
func (t *Transport) Dial(_ context.Context, peer transport.Endpoint) (transport.Path, error) {
	if t.Hooks.Dial != nil {
		if err := t.Hooks.Dial(peer); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return nil, errDead("dial")
	}
	t.dials++
	p := &Path{t: t, peer: string(peer.Blob), inc: peer.Incarnation, base: transport.RemoteID(t.dials % 3)}
	p.wake = make(chan struct{})
	t.paths[p] = true
	go p.work()
	return p, nil
}

// Path implements transport.Path.
type Path struct {
	t    *Transport
	peer string
	inc  uint64
	// base shifts the IDs of remotes, so that they differ between generations.
	base transport.RemoteID

	// Guarded by t.mu.
	keys   []key
	queue  []*op
	done   []transport.Completion
	closed bool
	wake   chan struct{}
}

type op struct {
	transport.Op
	taken bool
}

// Import implements transport.Path.
func (p *Path) Import(_ context.Context, blob transport.Key) (transport.RemoteID, error) {
	if p.t.Hooks.Import != nil {
		if err := p.t.Hooks.Import(blob); err != nil {
			return 0, err
		}
	}
	var k key
	if err := json.Unmarshal(blob, &k); err != nil {
		return 0, errs.Wrap(errs.InvalidKey, "fake", err)
	}
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	switch {
	case p.t.dead:
		return 0, errDead("import")
	case k.Inc != p.inc:
		return 0, errs.WithClass(errs.ClassTransientPeer, "fake: import", errs.New(errs.InvalidKey, "", "the key is of another incarnation"))
	}
	for i, o := range p.keys {
		if o == k {
			return transport.RemoteID(i) + 1 + p.base, nil
		}
	}
	p.keys = append(p.keys, k)
	return transport.RemoteID(len(p.keys)) + p.base, nil
}

// maxQueued is how many operations a path queues.
const maxQueued = 64

// Submit implements transport.Path.
func (p *Path) Submit(ops []transport.Op) (int, error) {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	defer p.t.cond.Broadcast()
	for i, o := range ops {
		switch {
		case p.closed:
			return i, errs.WithClass(errs.ClassTransientPath, "fake", transport.ErrPathClosed)
		case p.t.ended:
			return i, errDead("submit")
		case o.Remote <= p.base || int(o.Remote-p.base) > len(p.keys):
			return i, errs.New(errs.InvalidParams, "fake", "no remote %d", o.Remote)
		case int(o.Offset)+len(o.Local) > p.keys[o.Remote-p.base-1].Len:
			return i, errs.New(errs.InvalidParams, "fake", "past the end")
		case len(p.queue) >= maxQueued:
			return i, nil
		}
		p.queue = append(p.queue, &op{Op: o})
	}
	return len(ops), nil
}

// work carries operations out, one after the other.
func (p *Path) work() {
	for {
		p.t.mu.Lock()
		for !p.t.dead && !p.closed && (p.t.held || len(p.queue) == 0) {
			p.t.cond.Wait()
		}
		if p.t.dead || p.closed {
			p.t.mu.Unlock()
			return
		}
		o := p.queue[0]
		o.taken = true
		k := p.keys[o.Remote-p.base-1]
		p.t.working.Add(1)
		p.t.mu.Unlock()
		err := p.t.net.carry(p.peer, k, &o.Op)
		p.t.working.Done()
		p.t.mu.Lock()
		if len(p.queue) > 0 && p.queue[0] == o && !p.t.dead {
			p.queue = p.queue[1:]
			c := transport.Completion{ID: o.ID, Status: transport.OK}
			if err != nil {
				c.Status, c.Err = transport.Failed, err
			}
			p.finish(c)
		}
		p.t.mu.Unlock()
	}
}

// carry moves the bytes.
func (n *Net) carry(peer string, k key, o *transport.Op) error {
	n.mu.Lock()
	to := n.at[peer]
	n.mu.Unlock()
	if to == nil {
		return errs.WithClass(errs.ClassTransientPeer, "fake", errors.New("the peer is gone"))
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	g, ok := to.regions[k.ID]
	if !ok || to.dead || to.inc != k.Inc {
		return errs.WithClass(errs.ClassTransientPeer, "fake", errs.New(errs.InvalidKey, "", "the peer has no such region any more"))
	}
	mem := g.Mem[o.Offset:][:len(o.Local)]
	if o.Kind == transport.Read {
		copy(o.Local, mem)
	} else {
		copy(mem, o.Local)
	}
	return nil
}

// finish queues a completion. The caller holds t.mu.
func (p *Path) finish(c transport.Completion) {
	p.done = append(p.done, c)
	p.signal()
}

func (p *Path) signal() {
	close(p.wake)
	p.wake = make(chan struct{})
}

// Reap implements transport.Path.
func (p *Path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	for {
		p.t.mu.Lock()
		n := copy(dst, p.done)
		p.done = append([]transport.Completion(nil), p.done[n:]...)
		closed, wake := p.closed, p.wake
		p.t.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, errs.WithClass(errs.ClassTransientPath, "fake", transport.ErrPathClosed)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Close implements transport.Path.
func (p *Path) Close(context.Context) error {
	p.close()
	p.t.mu.Lock()
	delete(p.t.paths, p)
	p.t.mu.Unlock()
	return nil
}

func (p *Path) close() {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for _, o := range p.queue {
		c := transport.Completion{ID: o.ID, Status: transport.Failed, Err: errs.WithClass(errs.ClassTransientPath, "fake", transport.ErrPathClosed)}
		if o.taken {
			c.Status = transport.Quarantined
		}
		p.finish(c)
	}
	p.queue = nil
	p.signal()
	p.t.cond.Broadcast()
}
