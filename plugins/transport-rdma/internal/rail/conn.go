package rail

import (
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/cache"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Conn is one connection of a rail: queue pairs that are connected to the peer's. Fields
// without a comment are guarded by Rail.mu.
type Conn struct {
	rail  *Rail
	pairs []*pair // constant
	// established says that the connection was ready once and may be evicted.
	established atomic.Bool
	// depth is the depth of the shallowest pair, slice the size of work requests. Constant.
	depth int
	slice uint64

	setup sync.Mutex // held while queue pairs change state
	over  bool       // nothing is connected any more; guarded by setup
	// peer is the queue pairs of a node of upstream, once connected. Written under setup.
	peer atomic.Pointer[[]uint32]

	ready    bool // work may be posted
	dying    bool
	clean    bool  // flushed operations may be done again
	cause    error // why it died
	inFlight int   // work requests
	next     int   // the pair to consider first
	used     time.Time
	// unproven are operations that failed, and that wait for the proof that nothing is stored
	// any more.
	unproven []*Op
	entry    *cache.Entry[*Conn] // in Pool.conns; guarded by Pool.mu

	lifeline net.Conn      // nil to a peer of upstream
	drained  chan struct{} // closed when dying and nothing is in flight
	peerGone chan struct{} // closed when the lifeline has ended; quiet is set before
	quiet    bool          // the peer has no queue pairs for this connection any more
	refused  bool          // the peer's device refused a request, and takes no more
	gone     chan struct{} // closed when nothing of it is left

	wrs [postBatch]verbs.WR
}

// pair is one queue pair of a connection. Its work requests in flight are a ring in the order of
// posting, guarded by Rail.mu.
type pair struct {
	*device.Pair
	conn  *Conn
	ring  []request // its length is a power of two
	head  uint64    // posted so far, the ID of the next work request
	tail  uint64    // ended so far
	bytes int64     // between them
}

// request is one work request: a range of an operation. result waits in it when it was fetched
// before the result of an earlier one, which another goroutine has.
type request struct {
	op      *Op
	size    int
	fetched bool
	result  verbs.Result
}

func (p *pair) inFlight() int { return int(p.head - p.tail) }

func (p *pair) at(i uint64) *request { return &p.ring[i&uint64(len(p.ring)-1)] }

// Take implements device.PairOwner.
func (p *pair) Take(results []verbs.Result) { p.conn.take(p, results) }

// Failed implements device.PairOwner: the connection ends.
func (p *pair) Failed(event verbs.EventType, cause error) {
	class := errs.ClassTransientPath // A peer of upstream asked for what it may not have; this side's work goes on anew.
	if event == verbs.EventQPFatal {
		class = errs.ClassLocalDevice
	}
	p.conn.end(errs.WithClass(class, p.conn.rail.Name, cause), false)
}

// newConn makes the queue pairs of a connection, not yet connected. Where the device has
// no space, the connection that was idle longest is evicted.
func (r *Rail) newConn() (*Conn, error) {
	c := &Conn{
		rail: r, used: time.Now(),
		drained: make(chan struct{}), peerGone: make(chan struct{}), gone: make(chan struct{}),
	}
	if err := r.pool.admit(c); err != nil {
		return nil, errs.WithClass(errs.ClassLocalDevice, r.Name, err)
	}
	cfg := r.env.Config
	owners := make([]device.PairOwner, cfg.QPPerEndpoint)
	for i := range owners {
		p := &pair{conn: c}
		c.pairs, owners[i] = append(c.pairs, p), p
	}
	pairs, err := r.Dev.NewPairs(cfg.MaxWR, owners)
	if errors.Is(err, syscall.ENOMEM) && r.pool.evict() {
		pairs, err = r.Dev.NewPairs(cfg.MaxWR, owners)
	}
	if err != nil {
		r.pool.forget(c)
		return nil, deviceError(r.Name, err)
	}
	c.depth, c.slice = pairs[0].Depth(), r.Dev.Slice()
	for i, p := range c.pairs {
		p.Pair = pairs[i]
		c.depth = min(c.depth, p.Depth())
		size := 1
		for size < p.Depth() {
			size *= 2
		}
		p.ring = make([]request, size)
	}
	r.table.hold(r)
	r.counters.conns.Add(1)
	return c, nil
}

// Gone is closed when nothing of the connection is left.
func (c *Conn) Gone() <-chan struct{} { return c.gone }

// devicePairs returns the queue pairs as the device knows them.
func (c *Conn) devicePairs() []*device.Pair {
	out := make([]*device.Pair, len(c.pairs))
	for i, p := range c.pairs {
		out[i] = p.Pair
	}
	return out
}

// Numbers returns the numbers of the queue pairs and their first packet numbers.
func (c *Conn) Numbers() (qps, psns []uint32) { return device.Numbers(c.devicePairs()) }

// connectedTo reports whether the connection leads to these queue pairs of a node of upstream.
func (c *Conn) connectedTo(qps []uint32) bool {
	p := c.peer.Load()
	return p != nil && slices.Equal(*p, qps)
}

// kill ends a connection: nothing more is posted to it, and a goroutine tears it down. The first
// cause counts. clean says that flushed operations may be done again on another connection.
func (c *Conn) kill(cause error, clean bool) {
	if c.dying {
		return
	}
	r := c.rail
	c.dying, c.ready, c.cause, c.clean = true, false, cause, clean
	if r.conn == c {
		r.conn = nil
	}
	c.checkDrained()
	r.counters.conns.Add(-1)
	r.env.Traffic.Go(c.tearDown)
}

// checkDrained notes that the device is done with everything.
func (c *Conn) checkDrained() {
	if c.inFlight > 0 {
		return
	}
	select {
	case <-c.drained:
	default:
		close(c.drained)
	}
}

// deviceError is a failure of this side's device while a connection is made or used. One
// without memory left is told with its limit.
func deviceError(op string, err error) error {
	e := &errs.Error{Code: errs.TransferFail, Class: errs.ClassLocalDevice, Op: op, Err: err}
	switch {
	case errors.Is(err, device.ErrConnect):
		e.Class = errs.ClassTransientPath
		e.Hint = "check that both addresses (GID) are of the same kind and routed to each other: ibv_devinfo -v"
	case errors.Is(err, syscall.ENOMEM):
		e.Hint = "the device has no queue pair or memory left, or RLIMIT_MEMLOCK is low: lower max_endpoints, qp_per_endpoint or max_wr, or run with ulimit -l unlimited"
	}
	return e
}
