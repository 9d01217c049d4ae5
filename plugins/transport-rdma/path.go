package rdma

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// path implements transport.Path and transport.Railed. Its operations wait and are carried
// out in rails, which it shares with other paths to the same peer.
type path struct {
	n    *node
	peer *blob.Endpoint
	text string // the blob of the peer's endpoint
	// rails are the queues of the rails: rails[i] is that of RailID i+1. Constant after Dial.
	rails []*rail.Queue
	ended chan struct{} // closed when nothing of the path is left
	// asleep is how many reapers wait for a completion.
	asleep atomic.Int64

	mu sync.Mutex
	pathkit.Base[*blob.Key, rail.Op, *rail.Op]
	idle    chan struct{}
	touched []*rail.Rail // of the Submit in flight
	turn    int
}

func newPath(n *node, peer *blob.Endpoint, text string) *path {
	p := &path{n: n, peer: peer, text: text, ended: make(chan struct{}), idle: make(chan struct{})}
	p.Init(&p.mu, "transport/rdma: path to "+peer.Addrs[0], pathkit.Limits{
		Ops: n.cfg.MaxInflightOps, Timeout: time.Duration(n.cfg.OpTimeout), Rails: len(n.devices) * len(peer.Devices),
	}, p.expire)
	return p
}

// takeRails finds or makes the rails.
func (p *path) takeRails() {
	for _, d := range p.n.devices {
		for i, remote := range p.peer.Devices {
			key := rail.Key{Local: d.Index, Peer: p.text + strconv.Itoa(i)}
			if p.peer.Upstream() {
				key.Peer = rail.UpstreamPeer(handshake.NICPath(p.peer.Server, remote.Name))
			}
			r := p.n.rails.Get(key, d.out, remote, p.peer, p.peer.Addrs[0])
			r.SetAddresses(p.peer.Addrs)
			p.rails = append(p.rails, &rail.Queue{Rail: r, Index: i})
		}
	}
}

// Import implements transport.Path. Importing a key twice gives the same RemoteID.
func (p *path) Import(_ context.Context, text transport.Key) (transport.RemoteID, error) {
	r, err := blob.DecodeKey(text)
	if err != nil {
		return 0, p.ErrKey(err)
	}
	if r.Incarnation != p.peer.Incarnation {
		return 0, p.ErrIncarnation(r.Incarnation, p.peer.Incarnation)
	}
	if r.Devices != len(p.peer.Devices) {
		return 0, p.ErrKey(fmt.Errorf("the key is for %d devices, the peer has %d", r.Devices, len(p.peer.Devices)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.AddKey(text, r.Region, r.Length, r)
}

// Close implements transport.Path. Posted operations get a moment to end well; then their
// connection is given up.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.Shut() {
		p.abortAll(p.ErrClosed(), false)
		p.checkIdle()
		p.n.env.Traffic.Go(p.end)
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

// end waits until nothing of a closed path is in flight, and gives up its rails.
func (p *path) end() {
	defer close(p.ended)
	grace := closeGrace
	if p.n.env.Context.Err() != nil {
		grace = 0
	}
	if !rail.Wait(p.idle, grace) {
		p.mu.Lock()
		p.abortAll(p.ErrClosed(), true)
		p.mu.Unlock()
		<-p.idle // A connection that was killed ends within its timeouts.
	}
	for _, l := range p.rails {
		l.Rail.Release()
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
func (p *path) abort(o *rail.Op, err error, force bool) {
	done := o.Queue.Rail.Abort(o, err, force)
	for o := range done.All() {
		p.Finish(o)
	}
}

// Lock and Unlock implement rail.Path.
func (p *path) Lock() { p.mu.Lock() }

// Unlock is described at Lock.
func (p *path) Unlock() { p.mu.Unlock() }

// Finish implements rail.Path. p.mu is held.
func (p *path) Finish(o *rail.Op) {
	stats := &p.n.env
	switch {
	case o.Err == nil:
		stats.OpsOK.Add(1)
	case o.Indeterminate:
		stats.OpsQuarantined.Add(1)
	default:
		stats.OpsFailed.Add(1)
	}
	p.Base.Finish(o, o.Err, o.Indeterminate)
	p.checkIdle()
}

// checkIdle notes that a closed path has nothing in flight. p.mu is held.
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

// expire fails the operations whose deadline has passed, or that are stalled, with the latest
// failure of their rail, which may be the reason.
func (p *path) expire(due iter.Seq[*rail.Op]) {
	for o := range due {
		r := o.Queue.Rail
		p.abort(o, errs.WithClass(errs.ClassTransientPath, r.Name, p.ErrOverdue(o, r.Latest())), true)
	}
}
