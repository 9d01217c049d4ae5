package rdma

import (
	"fmt"
	"io"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// kill ends a conn: nothing more is posted to it, and a goroutine buries it. The first
// cause counts. clean says that flushed operations may be done again on another conn.
// link.mu is held.
func (c *conn) kill(cause error, clean bool) {
	if c.dying {
		return
	}
	k := c.link
	c.dying, c.ready, c.cause, c.clean = true, false, cause, clean
	if k.conn == c {
		k.conn = nil
	}
	c.checkDrained()
	k.stats.conns.Add(-1)
	spawn(&k.n.traffic, c.bury)
}

// checkDrained notes that the device is done with everything. link.mu is held.
func (c *conn) checkDrained() {
	if c.inflight > 0 {
		return
	}
	select {
	case <-c.drained:
	default:
		close(c.drained)
	}
}

// bury takes a conn that was killed apart: stop, collect what was under way, destroy, and
// end the operations that waited for the proof that it is over.
func (c *conn) bury() {
	n := c.link.n
	defer close(c.buried)
	defer n.release(c.link)
	defer c.link.dev.forget(c)
	c.link.kick()  // What waits need not wait for this.
	c.setup.Lock() // Not while an attempt still connects the queue pairs.
	c.over = true
	for _, p := range c.pairs {
		if err := p.qp.ToErr(); err != nil {
			n.log.Debug("queue pair to error state", "link", c.link.name, "error", err)
		}
	}
	c.setup.Unlock()
	c.sayEnd()
	wait(c.drained, n.cfg.FlushTimeout)
	local := n.closePairs(c.pairs)
	if local { // The rest has a result now.
		local = wait(c.drained, n.cfg.FlushTimeout)
	}
	for _, p := range c.pairs {
		if local {
			n.tags.drop(p)
		}
	}
	c.settleAll(local, c.peerQuiet())
	if c.life != nil {
		_ = c.life.Close() // Ends the watcher.
	}
}

// closePairs destroys queue pairs that may have work under way.
func (n *node) closePairs(pairs []*pair) bool {
	all := true
	for _, p := range pairs {
		if err := p.qp.Close(); err != nil {
			n.log.Error("a queue pair could not be destroyed", "device", p.d.name, "error", err)
			n.mu.Lock()
			n.zombies = append(n.zombies, p)
			n.mu.Unlock()
			all = false
		}
	}
	return all
}

// peerQuiet waits, within bounds, until the peer cannot store anything that came over the
// conn, and reports whether that is proven. It does not wait where nobody asks.
func (c *conn) peerQuiet() bool {
	k := c.link
	k.mu.Lock()
	asked, refused := len(c.limbo) > 0, c.refused && len(c.pairs) == 1
	k.mu.Unlock()
	switch {
	case !asked || refused:
		return true
	case c.life == nil:
		// Nobody can tell. What the device has sent ends with the time in which it would have
		// sent it again.
		wait(k.n.ctx.Done(), min(k.n.cfg.ackTimeout(), k.n.cfg.ConfirmTimeout))
		return false
	}
	return wait(c.gone, k.n.cfg.ConfirmTimeout) && c.quiet
}

// settleAll ends the operations of a conn that is gone. local says that this side's device
// is done with all memory, remote that the peer's is.
func (c *conn) settleAll(local, remote bool) {
	var done opList
	k := c.link
	k.mu.Lock()
	if !local {
		c.abandon()
	}
	for _, o := range c.limbo {
		o.doubt = !local || !remote
		if o.doubt && o.err == nil {
			o.err = c.cause
		}
		o.stage = opPosted
		if o.doubt {
			k.load.Add(-int64(o.size()))
			done.add(o)
			continue
		}
		k.settle(o, &done)
	}
	c.limbo = nil
	k.pump(&done)
	k.mu.Unlock()
	done.finish()
}

// abandon gives up waiting for work requests of queue pairs that could not be destroyed.
// Their operations end in doubt. link.mu is held.
func (c *conn) abandon() {
	for _, p := range c.pairs {
		for ; p.tail != p.head; p.tail++ {
			s := p.at(p.tail)
			o := s.o
			*s = piece{}
			if o.open--; o.open > 0 {
				continue
			}
			o.lane.remove(o)
			if o.err == nil {
				o.err = c.cause
			}
			if o.stage != opLimbo {
				o.stage = opLimbo
				c.limbo = append(c.limbo, o)
			}
		}
	}
	c.inflight = 0
}

// The bytes of the lifeline. The side that made the conn says endOfWork when it gives the
// conn up; the other answers with why it ended, after its queue pairs are destroyed.
const (
	endOfWork   = 'E'
	endAnswered = 'q'
	endStopping = 's'
	endDevice   = 'd'
	endUnproven = 'x' // A queue pair could not be destroyed.
)

func (c *conn) sayEnd() {
	if c.life == nil {
		return
	}
	_ = c.life.SetWriteDeadline(time.Now().Add(c.link.n.cfg.ConfirmTimeout))
	_, _ = c.life.Write([]byte{endOfWork}) // Without it the end of the connection says the same.
}

// watch waits for the end of the lifeline, and kills the conn when it was not this side's
// doing.
func (c *conn) watch() {
	var b [1]byte
	_, err := io.ReadFull(c.life, b[:])
	k := c.link
	why := errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPeer, Op: k.name}
	switch {
	case err == nil && b[0] == endDevice:
		why.Class, why.Err = errs.ClassTransientPath, fmt.Errorf("the peer cannot use its device %s any more", k.remote.Name)
	case err == nil && b[0] == endStopping:
		why.Err = fmt.Errorf("the peer is stopping")
	case err == nil && b[0] == endUnproven:
		why.Class, why.Err = errs.ClassTransientPath, fmt.Errorf("the peer could not end its side of the connection")
	case err == nil || err == io.EOF:
		why.Err = fmt.Errorf("the peer's process has ended the connection")
	default:
		why.Class, why.Err = errs.ClassTransientPath, fmt.Errorf("the peer is out of reach: %w", err)
	}
	k.mu.Lock()
	c.quiet = err == nil && b[0] != endUnproven || err == io.EOF
	close(c.gone)
	if !c.dying {
		k.failed(&why, true)
		c.kill(&why, false)
		var done opList
		k.pump(&done)
		defer done.finish()
	}
	k.mu.Unlock()
}

// wait waits for ch, at most for limit, and reports whether it was closed.
func wait(ch <-chan struct{}, limit time.Duration) bool {
	select {
	case <-ch:
		return true
	default:
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ch:
		return true
	case <-t.C:
		return false
	}
}
