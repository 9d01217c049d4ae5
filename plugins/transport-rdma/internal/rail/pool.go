package rail

import (
	"fmt"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/cache"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Pool holds the connections that this side made from one device.
type Pool struct {
	Dev *device.Device
	env *device.Env

	mu    sync.Mutex
	conns *cache.Set[*Conn]
}

// NewPool returns a pool without connections.
func NewPool(env *device.Env, dev *device.Device) *Pool {
	policy := cache.SIEVE
	if env.Config.EndpointStore == config.StoreFIFO {
		policy = cache.FIFO
	}
	return &Pool{Dev: dev, env: env, conns: cache.New[*Conn](policy)}
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
		c.kill(errs.WithClass(errs.ClassTransientPath, r.Name, fmt.Errorf("the connection was closed: %s", why)), true)
	}
	return c.dying
}
