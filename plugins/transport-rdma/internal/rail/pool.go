package rail

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/cache"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// NewPool returns an empty pool.
func NewPool(env *device.Env, dev *device.Device) *Pool {
	policy := cache.SIEVE
	if env.Config.EndpointStore == config.StoreFIFO {
		policy = cache.FIFO
	}
	return &Pool{Dev: dev, env: env, rails: map[string]*Rail{}, conns: cache.New[*Conn](policy)}
}

// Len returns the number of connections, also of those that are ending.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns.Len()
}

// All returns the connections, oldest first.
func (p *Pool) All() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns.All()
}

// EndAll ends every connection; operations in flight fail with cause. Where the transport is
// stopping, operations that wait fail as well.
func (p *Pool) EndAll(cause error, stopping bool) {
	for _, c := range p.All() {
		c.end(cause, stopping)
	}
}

// CloseIdle ends connections to our own nodes that had no work since then. One of upstream
// may be in use by the peer, which this side does not see.
func (p *Pool) CloseIdle(since time.Time) {
	for _, c := range p.All() {
		r := c.rail
		r.mu.Lock()
		idle := r.server == "" && r.conn == c && c.ready && r.load.Load() == 0 && c.used.Before(since)
		r.mu.Unlock()
		if idle {
			c.retire("it was idle")
		}
	}
}

// admit gives c a place in the pool. Where there is none, the connection that was idle longest is
// evicted.
func (p *Pool) admit(c *Conn) error {
	const tries = 8 // Other connections take the places too.
	for range tries {
		p.mu.Lock()
		if p.conns.Len() < p.Dev.Limit() {
			c.entry = p.conns.Add(c)
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
		if !p.evict() {
			break
		}
	}
	return fmt.Errorf("%s has %d connections, the most it may, and all are busy; raise max_endpoints", p.Dev.Name, p.Dev.Limit())
}

// evict ends an idle connection and waits until it is gone. It reports whether there was one.
func (p *Pool) evict() bool {
	const tries = 8 // One that was idle may just have got work.
	for range tries {
		p.mu.Lock()
		e := p.conns.Victim(func(c *Conn) bool { return c.established.Load() && c.rail.load.Load() == 0 })
		p.mu.Unlock()
		if e == nil {
			return false
		}
		if e.Value.retire("it was idle, and others need its place") {
			return Wait(e.Value.gone, 3*time.Duration(p.env.Config.FlushTimeout))
		}
	}
	return false
}

// forget gives up the place of c.
func (p *Pool) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns.Remove(c.entry)
}

// retire ends a connection that has nothing to do. It reports whether the connection ends.
func (c *Conn) retire(why string) bool {
	r := c.rail
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.load.Load() == 0 {
		c.kill(r.errorf(errs.ClassTransientPath, "the connection was closed: %s", why), true)
	}
	return c.dying
}

// UpstreamPeer returns the key of Pool.Rail for a device of upstream. The blob of an endpoint never
// begins like it.
func UpstreamPeer(nicPath string) string { return "@" + nicPath }

// Rail finds or makes the rail to a device of peer, whose first address is where. The key is the
// blob of the peer's endpoint with the number of its device, or the result of UpstreamPeer. The
// caller ends its use with Release.
func (p *Pool) Rail(key string, remote blob.Device, peer *blob.Endpoint, where string) *Rail {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rails[key]
	if r == nil {
		r = &Rail{
			env: p.env, key: key, pool: p, Dev: p.Dev, Remote: remote, incarnation: peer.Incarnation, server: peer.Server, where: where,
			Name: fmt.Sprintf("transport/rdma: %s to %s of %s", p.Dev.Name, remote.Name, where),
		}
		if !remote.Up { // It may come up; no message tells.
			r.pause(time.Duration(p.env.Config.RailPause))
		}
		p.rails[key] = r
	}
	r.users++
	return r
}

// hold counts another user of a rail.
func (r *Rail) hold() {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.users++
}

// Release ends one use of the rail. The last one takes it out of the pool.
func (r *Rail) Release() {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	if r.users--; r.users == 0 && r.pool.rails[r.key] == r {
		delete(r.pool.rails, r.key)
	}
}

// Stats returns the counters of all rails.
func (p *Pool) Stats() (out []Stats) {
	p.mu.Lock()
	rails := slices.Collect(maps.Values(p.rails))
	p.mu.Unlock()
	for _, r := range rails {
		out = append(out, r.stats())
	}
	return out
}

// Stats are the counters of a pair of devices, over all paths to one peer, since the first of
// them was dialled.
type Stats struct {
	Local, Remote, Peer     string
	Up                      bool
	BytesRead, BytesWritten uint64
	// Requests counts work requests that ended well, Failures losses of the connection and
	// failed attempts to make one.
	Requests, Failures uint64
	// Connections is 1 while there is one, more while old ones end.
	Connections int64
	// Waiting is how many bytes are queued or in flight.
	Waiting int64
	// LastError is the latest failure, empty once the rail works again.
	LastError string
}

func (c *counters) moved(kind transport.OpKind, n int) {
	c.requests.Add(1)
	if kind == transport.Read {
		c.read.Add(uint64(n))
	} else {
		c.written.Add(uint64(n))
	}
}

func (r *Rail) stats() Stats {
	c := &r.counters
	s := Stats{
		Local: r.Dev.Name, Remote: r.Remote.Name, Peer: r.where, Up: r.Up(time.Now()),
		BytesRead: c.read.Load(), BytesWritten: c.written.Load(), Requests: c.requests.Load(),
		Failures: c.failures.Load(), Connections: c.conns.Load(), Waiting: r.load.Load(),
	}
	if err := r.Latest(); err != nil {
		s.LastError = err.Error()
	}
	return s
}
