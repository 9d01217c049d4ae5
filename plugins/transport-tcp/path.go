package tcp

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// path implements transport.Path: a queue of operations and a pool of lanes that take
// from it. mu guards everything below it; nothing blocks while it is held.
type path struct {
	n         *node
	peer      endpoint
	maxLanes  int
	ctx       context.Context
	cancel    context.CancelFunc
	lanesDone sync.WaitGroup

	mu sync.Mutex
	pathkit.Base[*remoteKey, op, *op]
	queue     opQueue
	lanes     []*lane
	dialling  int  // lanes that are being connected
	far       bool // the peer, by the lane that came up last
	retry     transportkit.Redial
	freeParts []*part
	carried   uint64 // bytes that lanes moved which are gone by now
	seen      uint64 // what moved returned last
	attended  bool   // the waiting goroutine polls for answers
}

func newPath(n *node, peer endpoint) *path {
	ctx, cancel := context.WithCancel(context.Background())
	p := &path{n: n, peer: peer, ctx: ctx, cancel: cancel, maxLanes: n.cfg.ConnectionsPerPeer}
	if peer.Upstream != 0 {
		p.maxLanes = min(p.maxLanes, upMaxLanes)
	}
	p.Init(&p.mu, "transport/tcp: path to "+peer.Addrs[0], pathkit.Limits{
		Ops: n.cfg.MaxInflightOps, Bytes: n.cfg.MaxInflightBytes, Timeout: n.cfg.OpTimeout,
	}, p.expire)
	p.retry.Init(p.Name(), n.cfg.DialTimeout, "see whether its machine runs and the network leads to it")
	p.Meter(p.moved)
	return p
}

// moved is how many bytes the path carried so far. It brings the patience with the peer up to date
// where bytes have moved. path.mu is held.
func (p *path) moved() uint64 {
	sum, patience := p.carried, 1
	for _, l := range p.lanes {
		sum += l.moved()
		if p.peer.Upstream == 0 {
			patience = max(patience, l.gauge.patience())
		}
	}
	if sum != p.seen {
		p.seen = sum
		p.Patience(patience)
	}
	return sum
}

// Import implements transport.Path. Importing a key twice gives the same RemoteID.
func (p *path) Import(_ context.Context, blob transport.Key) (transport.RemoteID, error) {
	k, err := decodeKey(blob)
	if err != nil {
		return 0, p.ErrKey(err)
	}
	if k.Incarnation != p.peer.Incarnation || k.Upstream != (p.peer.Upstream != 0) {
		return 0, p.ErrIncarnation(k.Incarnation, p.peer.Incarnation)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.AddKey(blob, k.Region, k.Length, &k)
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.kick()
	defer p.direct()
	for i := range ops {
		in := &ops[i]
		key, err := p.Check(in)
		if err != nil {
			return i, err
		}
		if !p.Room(in) {
			return i, nil
		}
		p.accept(in, key, now)
	}
	return len(ops), nil
}

func (p *path) accept(in *transport.Op, key *remoteKey, now time.Time) {
	if len(in.Local) == 0 {
		p.n.stats.opsOK.Add(1)
		p.Complete(in.ID, nil, false)
		return
	}
	o := p.Accept(in, now)
	o.key = key
	p.queue.push(o)
	switch {
	case o.Late(now):
		p.abort(o, p.errOverdue(o), false)
	case p.retry.Down != nil && now.Before(p.retry.NotBefore):
		p.abort(o, p.retry.Down, false)
	}
}

// expire fails the operations whose deadline has passed, or that are stalled.
func (p *path) expire(due iter.Seq[*op]) {
	for o := range due {
		p.abort(o, p.errOverdue(o), true)
	}
	p.giveUpHasty(time.Now())
	p.kick()
}

// Extras implements transport.Extended.
func (p *path) Extras() transport.Extras {
	return transport.Extras{Deliver: p.DeliverTo, Poll: p.poll}
}

// Close implements transport.Path.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.Shut() {
		cause := p.ErrClosed()
		for o := range p.Active() {
			p.abort(o, cause, true)
		}
		for _, l := range p.lanes {
			l.die(cause)
		}
		p.cancel()
	}
	p.mu.Unlock()
	p.n.mu.Lock()
	delete(p.n.paths, p)
	p.n.mu.Unlock()
	return p.Drain(ctx, &p.lanesDone, "connections are still ending")
}

func (p *path) errOverdue(o *op) error {
	if p.retry.Last == nil {
		return p.ErrOverdue(o, nil)
	}
	return p.ErrOverdue(o, fmt.Errorf("the last attempt to connect: %w", p.retry.Last))
}
