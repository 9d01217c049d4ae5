package rdma

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// newConn makes the queue pairs of a connection, not yet connected. Where the device has
// no room, the connection that was idle longest gives way.
func (k *link) newConn() (*conn, error) {
	c := &conn{
		link: k, used: time.Now(),
		drained: make(chan struct{}), gone: make(chan struct{}), buried: make(chan struct{}), confirmed: make(chan struct{}),
	}
	if err := k.dev.admit(c); err != nil {
		return nil, errs.WithClass(errs.ClassLocalDevice, k.name, err)
	}
	cfg := &k.n.cfg
	own := func(p *pair) { p.conn = c }
	pairs, err := k.dev.newPairs(cfg.QPPerEndpoint, cfg.MaxWR, own)
	if errors.Is(err, syscall.ENOMEM) && k.dev.evict() {
		pairs, err = k.dev.newPairs(cfg.QPPerEndpoint, cfg.MaxWR, own)
	}
	if err != nil {
		k.dev.forget(c)
		return nil, deviceError(k.name, err)
	}
	c.pairs, c.depth, c.slice = pairs, pairs[0].qp.Depth(), k.dev.slice()
	for _, p := range pairs {
		c.depth = min(c.depth, p.qp.Depth())
		size := 1
		for size < p.qp.Depth() {
			size *= 2
		}
		p.ring = make([]piece, size)
	}
	k.n.hold(k)
	k.stats.conns.Add(1)
	return c, nil
}

// admit gives c a place among the connections of the device.
func (d *device) admit(c *conn) error {
	const tries = 8 // Others take the places too.
	for range tries {
		d.mu.Lock()
		if d.conns.Len() < d.limit() {
			c.entry = d.conns.Add(c)
			d.mu.Unlock()
			return nil
		}
		d.mu.Unlock()
		if !d.evict() {
			break
		}
	}
	return fmt.Errorf("%s has %d connections, the most it may, and all are busy; raise max_endpoints", d.name, d.limit())
}

// evict ends an idle connection and waits until it is gone. It reports whether there was one.
func (d *device) evict() bool {
	const tries = 8 // One that was idle may just have got work.
	for range tries {
		d.mu.Lock()
		e := d.conns.Victim(func(c *conn) bool { return c.established.Load() && c.link.load.Load() == 0 })
		d.mu.Unlock()
		if e == nil {
			return false
		}
		if e.Value.retire("it was idle, and others need its place") {
			return wait(e.Value.buried, 3*d.n.cfg.FlushTimeout)
		}
	}
	return false
}

// retire ends a connection that has nothing to do. It reports whether the connection ends.
func (c *conn) retire(why string) bool {
	k := c.link
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.load.Load() == 0 {
		c.kill(errs.WithClass(errs.ClassTransientPath, k.name, fmt.Errorf("the connection was closed: %s", why)), true)
	}
	return c.dying
}

// forget gives up the place of c.
func (d *device) forget(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns.Remove(c.entry)
}

// hold and release count who uses a link; the last one takes it out.
func (n *node) hold(k *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k.refs++
}

func (n *node) release(k *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k.refs--; k.refs == 0 && n.links[k.key] == k {
		delete(n.links, k.key)
	}
}

// here is the present address of a device.
type here struct {
	gid        [16]byte
	text       string
	index, mtu int
	lid        uint32
}

func (d *device) here() here {
	d.mu.Lock()
	defer d.mu.Unlock()
	return here{gid: d.addr.GID, text: d.addr.GID.String(), index: d.addr.Index, mtu: d.mtu(), lid: uint32(d.port.LID)}
}

// numbers returns the numbers of queue pairs and their first packet numbers.
func numbers(pairs []*pair) (qps, psns []uint32) {
	for _, p := range pairs {
		qps, psns = append(qps, p.qp.Num()), append(psns, p.psn)
	}
	return qps, psns
}

// errJoin is in the errors of queue pairs that could not be connected: the address of the
// port may have changed.
var errJoin = errors.New("the queue pairs could not be connected")

// connectPairs connects queue pairs to the peer's, by index.
func connectPairs(pairs []*pair, peers, psns []uint32, f far) error {
	for i, p := range pairs {
		f.qp, f.psn, f.localPSN = peers[i], 0, 0
		if len(psns) > 0 {
			f.psn, f.localPSN = psns[i], p.psn
		}
		if err := p.join(f); err != nil {
			return fmt.Errorf("%w: %w", errJoin, err)
		}
	}
	return nil
}
