package tcp

import (
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// The goroutine that waits for an answer sends the request itself, where that is short, and polls
// for the answer. Otherwise two goroutines of the connection would have to be woken, and each may
// wake another thread, too.

const (
	// directBytes and directOps are the most that a Submit sends itself. It takes no longer for it
	// than another goroutine would take to wake up.
	directBytes = 64 << 10
	directOps   = 8
)

// open makes the state of a connection.
func (a *poller) open(c *connection, conn syscall.Conn, poll time.Duration) {
	sender, err := busypoll.NewSender(conn)
	if err != nil {
		return
	}
	poller, err := busypoll.NewReadPoller(conn, poll, func() bool { return c.gone.Load() || a.stop() })
	if err != nil {
		return
	}
	a.sender, a.poller = sender, poller
}

// poll implements transport.Extras.Poll.
func (p *path) poll(stop func() bool) {
	c := p.expecting()
	if c == nil {
		return
	}
	c.poller.stop = stop
	c.poller.poller.Wait()
	c.poller.stop = nil
	c.poller.mu.Unlock()
}

// expecting returns a connection of which an answer has yet to begin, with a.mu held; nil where
// there is none, or other goroutines poll.
func (p *path) expecting() *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polled = true
	for _, c := range p.conns {
		if c.up && c.poller.poller != nil && c.owed() && !c.moving && !c.writing && c.poller.mu.TryLock() {
			return c
		}
	}
	return nil
}

// direct sends what waits, where that is short and a connection has nothing else to do. Only where
// a goroutine polls for answers: the connection's writer sends otherwise. path.mu is held, and
// released meanwhile.
func (p *path) direct() {
	if !p.polled || p.Closed() || p.peer.Upstream != 0 || !p.short() {
		return
	}
	c := p.vacant()
	if c == nil {
		return
	}
	defer c.sending.Unlock()
	c.waiting = false // A goroutine that comes now finds that the queue is checked below.
	if c.fill(time.Now()) {
		p.mu.Unlock()
		c.sendDirect()
		p.mu.Lock()
	}
	if c.waiting = true; c.w.rest {
		c.rouse()
	}
}

// short reports whether something waits, and little enough for direct.
func (p *path) short() bool {
	ops, bytes := 0, 0
	for o := p.queue.First(); o != nil; o = o.link.Next() {
		if o.Kind == transport.Write {
			bytes += len(o.Local) - o.cut
		}
		if ops++; ops > directOps || bytes > directBytes || len(o.Local) > p.n.cfg.SliceBytes {
			return false
		}
	}
	return ops > 0
}

// vacant returns a connection that owes nothing, with sending held; nil where there is none.
func (p *path) vacant() *connection {
	for _, c := range p.conns {
		if c.waiting && c.poller.sender != nil && !c.owed() && c.hasSpace() && c.sending.TryLock() {
			return c
		}
	}
	return nil
}

// sendDirect sends the batch as far as the socket takes it. The rest is the writer's, as is what to
// do about an error, which it meets again.
func (c *connection) sendDirect() {
	w := &c.w
	c.pack()
	c.p.n.stats.writeCalls.Add(1)
	err := c.poller.sender.Send(&w.bufs)
	if w.rest = err != nil || len(w.bufs) > 0; w.rest {
		return
	}
	clear(w.vec[:w.used])
	c.sent(nil)
}
