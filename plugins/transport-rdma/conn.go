package rdma

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/cache"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// postBatch is how many work requests are handed over at a time, and how many one lane
// gets in its turn.
const (
	postBatch = 32
	turn      = 8
)

// conn is one generation of a link: queue pairs that are connected to the peer's. Fields
// without a comment are guarded by link.mu.
type conn struct {
	link  *link
	pairs []*pair // constant
	// established says that the conn was ready once and may give way.
	established atomic.Bool
	// depth is the depth of the shallowest pair, slice the size of work requests. Constant.
	depth int
	slice uint64

	setup sync.Mutex // held while queue pairs change state
	over  bool       // nothing is joined any more; guarded by setup
	// peer is the queue pairs of a node of upstream, once joined. Written under setup.
	peer atomic.Pointer[[]uint32]

	ready    bool // work may be posted
	dying    bool
	clean    bool  // flushed operations may be done again
	cause    error // why it died
	inflight int   // work requests under way
	next     int   // where to look for room first
	used     time.Time
	limbo    []*op
	entry    *cache.Entry[*conn] // in device.conns; guarded by device.mu

	life    net.Conn      // the lifeline, nil to a peer of upstream
	drained chan struct{} // closed when dying and nothing is under way
	gone    chan struct{} // closed when the lifeline has ended; quiet is set before
	quiet   bool          // the peer has no queue pairs for this conn any more
	refused bool          // the peer's device refused something, and takes nothing any more
	buried  chan struct{} // closed when nothing of it is left
	// confirmed is closed by the second round of the handshake with a node of upstream.
	confirmed chan struct{}

	wrs [postBatch]verbs.WR
}

// joinedTo reports whether the conn is connected to these queue pairs.
func (c *conn) joinedTo(qps []uint32) bool {
	p := c.peer.Load()
	return p != nil && slices.Equal(*p, qps)
}

// pick returns a queue pair with room, and for how many work requests.
func (c *conn) pick() (*pair, int) {
	var best *pair
	for i := range c.pairs {
		p := c.pairs[(c.next+i)%len(c.pairs)]
		if p.underWay() < c.depth && p.bytes < c.link.n.cfg.WindowBytes && (best == nil || p.bytes < best.bytes) {
			best = p
		}
	}
	if best == nil {
		return nil, 0
	}
	c.next++
	return best, min(postBatch, c.depth-best.underWay())
}

// post hands waiting operations to the device until nothing waits or there is no room.
func (c *conn) post(done *opList) {
	k := c.link
	for k.lanes.head != nil {
		p, room := c.pick()
		if p == nil {
			return // Results make room, and call again.
		}
		n := c.fill(p, room, done)
		if n == 0 {
			continue // What waited had to fail.
		}
		accepted, err := p.qp.Post(c.wrs[:n])
		var refused *op
		for i := n - 1; i >= accepted; i-- {
			refused = c.takeBack(p)
		}
		if err != nil {
			err = deviceError(k.name, err)
			c.kill(err, true)
			if refused != nil && refused.err == nil {
				refused.err = err
				refused.lane.remove(refused)
				k.settle(refused, done)
			}
			return
		}
		if accepted < n {
			k.later()
			return
		}
	}
}

// fill writes work requests for p, at most room, and counts them as under way.
func (c *conn) fill(p *pair, room int, done *opList) (n int) {
	k := c.link
	c.used = time.Now()
	c.entry.Touch()
	for n < room && p.bytes < k.n.cfg.WindowBytes {
		l := k.lanes.pop()
		if l == nil {
			return n
		}
		for i := 0; i < turn && n < room && l.head != nil; i++ {
			o := l.head
			switch {
			case o.open > 0 && o.conn != c: // The conn that has the rest of it is ending.
				l.remove(o)
				continue
			case o.region.gone.Load():
				o.err = errWithdrawn(k.name)
				l.remove(o)
				k.settle(o, done)
				continue
			}
			c.wrs[n] = c.request(p, o)
			n++
		}
		if l.head != nil {
			k.wait(l)
		}
	}
	return n
}

// request makes the next work request of o.
func (c *conn) request(p *pair, o *op) verbs.WR {
	k := c.link
	lkey, local := o.region.lookup(o.addr+o.cut, k.dev.index)
	at := o.Offset + o.cut
	chunk := at / o.key.Chunk
	size := min(o.size()-o.cut, c.slice, local, (chunk+1)*o.key.Chunk-at)
	w := verbs.WR{
		ID: p.head, Local: o.addr + o.cut, LKey: lkey, Remote: o.key.Base + at, RKey: o.key.RKey(chunk, o.lane.index),
		Len: uint32(size), Op: verbs.OpWrite,
	}
	if o.Kind == transport.Read {
		w.Op = verbs.OpRead
	}
	if o.region.gpu {
		w.Flags = verbs.WRNoInline // Only the device can read it.
	}
	s := p.at(p.head)
	s.o, s.n, s.fetched = o, int(size), false
	p.head++
	p.bytes += int64(size)
	c.inflight++
	o.conn = c
	o.open++
	o.cut += size
	if o.cut == o.size() {
		o.lane.remove(o)
	}
	return w
}

// takeBack undoes the latest request, which the device did not accept, and returns whose it was.
func (c *conn) takeBack(p *pair) *op {
	p.head--
	s := p.at(p.head)
	o := s.o
	p.bytes -= int64(s.n)
	c.inflight--
	o.open--
	o.cut -= uint64(s.n)
	if o.stage == opPosted {
		o.lane.unshift(o)
	} else {
		c.link.wait(o.lane)
	}
	*s = piece{}
	return o
}
