package rdma

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// path implements transport.Path and transport.Railed. Its operations wait and are carried
// out in links, which it shares with other paths to the same peer.
type path struct {
	n    *node
	peer *blob.Endpoint
	text string // the blob of the peer's endpoint
	// lanes are the rails: lanes[i] is that of RailID i+1. Constant after Dial.
	lanes []*lane
	ended chan struct{} // closed when nothing of the path is left
	// asleep is how many reapers wait for a completion.
	asleep atomic.Int64

	mu sync.Mutex
	pathkit.Base[*blob.Key, op, *op]
	idle    chan struct{}
	touched []*link // of the Submit under way
	turn    int
}

func newPath(n *node, peer *blob.Endpoint, text string) *path {
	p := &path{n: n, peer: peer, text: text, ended: make(chan struct{}), idle: make(chan struct{})}
	p.Init(&p.mu, "transport/rdma: path to "+peer.Addrs[0], pathkit.Limits{
		Ops: n.cfg.MaxInflightOps, Timeout: n.cfg.OpTimeout, Rails: len(n.devices) * len(peer.Devices),
	}, p.expire)
	return p
}

// takeLinks finds or makes the link of each rail. node.mu is held.
func (p *path) takeLinks() {
	for _, d := range p.n.devices {
		for i, remote := range p.peer.Devices {
			key := linkKey{local: d.index, peer: p.text + strconv.Itoa(i)}
			if p.peer.Upstream() {
				key.peer = upstreamKey(handshake.NICPath(p.peer.Server, remote.Name))
			}
			k := p.n.linkFor(key, d, remote, p.peer, p.peer.Addrs[0])
			k.addrs.Store(&p.peer.Addrs)
			k.refs++
			p.lanes = append(p.lanes, &lane{link: k, index: i})
		}
	}
}

// linkFor finds or makes a link. node.mu is held.
func (n *node) linkFor(key linkKey, d *device, remote blob.Device, peer *blob.Endpoint, where string) *link {
	k := n.links[key]
	if k == nil {
		k = &link{
			n: n, key: key, dev: d, remote: remote, incarnation: peer.Incarnation, server: peer.Server, where: where,
			name: fmt.Sprintf("transport/rdma: %s to %s of %s", d.name, remote.Name, where),
		}
		if !remote.Up { // It may come up; nobody tells.
			k.pause(n.cfg.RailPause)
		}
		n.links[key] = k
	}
	return k
}

// Import implements transport.Path. Importing a key twice gives the same RemoteID.
func (p *path) Import(_ context.Context, text transport.Key) (transport.RemoteID, error) {
	k, err := blob.DecodeKey(text)
	if err != nil {
		return 0, p.ErrKey(err)
	}
	if k.Incarnation != p.peer.Incarnation {
		return 0, p.ErrIncarnation(k.Incarnation, p.peer.Incarnation)
	}
	if k.Devices != len(p.peer.Devices) {
		return 0, p.ErrKey(fmt.Errorf("the key is for %d devices, the peer has %d", k.Devices, len(p.peer.Devices)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.AddKey(text, k.Region, k.Length, k)
}

// Close implements transport.Path. What was posted gets a moment to end well; then its
// connection is given up.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.Shut() {
		p.abortAll(p.ErrClosed(), false)
		p.checkIdle()
		spawn(&p.n.traffic, p.end)
	}
	p.mu.Unlock()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.abortAll(p.ErrClosed(), true)
	p.mu.Unlock()
	select {
	case <-p.ended:
		return nil
	default:
		return fmt.Errorf("%s: close: operations are still ending: %w", p.Name(), ctx.Err())
	}
}

// closeGrace is how long operations that were posted may take to end well when their path
// is closed.
const closeGrace = time.Second

// end waits until nothing of a closed path is under way, and gives up its links.
func (p *path) end() {
	defer close(p.ended)
	grace := closeGrace
	if p.n.ctx.Err() != nil {
		grace = 0
	}
	if !wait(p.idle, grace) {
		p.mu.Lock()
		p.abortAll(p.ErrClosed(), true)
		p.mu.Unlock()
		<-p.idle // A conn that was killed ends within its timeouts.
	}
	for _, l := range p.lanes {
		p.n.release(l.link)
	}
	p.n.mu.Lock()
	delete(p.n.paths, p)
	p.n.mu.Unlock()
}

// abortAll ends every operation; with force also those that the device works on. p.mu is
// held.
func (p *path) abortAll(err error, force bool) {
	for o := range p.Active() {
		p.abort(o, err, force)
	}
}

// abort ends an operation. p.mu is held.
func (p *path) abort(o *op, err error, force bool) {
	var done opList
	o.lane.link.abort(o, err, force, &done)
	for o := done.head; o != nil; {
		next := o.next
		p.finish(o)
		o = next
	}
}

// checkIdle notes that a closed path has nothing under way. p.mu is held.
func (p *path) checkIdle() {
	if !p.Closed() || p.Len() > 0 {
		return
	}
	select {
	case <-p.idle:
	default:
		close(p.idle)
	}
}
