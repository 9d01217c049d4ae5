package rail

import (
	"fmt"
	"io"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// kill ends a connection: nothing more is posted to it, and a goroutine tears it down. The first
// cause counts. clean says that flushed operations may be done again on another connection.
// Rail.mu is held.
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

// checkDrained notes that the device is done with everything. Rail.mu is held.
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

// tearDown takes a killed connection apart: it stops the queue pairs, collects the results of the
// requests in flight, destroys the queue pairs, and ends the operations that waited for the proof
// that nothing is stored any more.
func (c *Conn) tearDown() {
	r := c.rail
	pairs := c.devicePairs()
	defer close(c.gone)
	defer r.Release()
	defer r.pool.forget(c)
	r.Kick()       // Operations that wait need not wait for this.
	c.setup.Lock() // Not while an attempt still connects the queue pairs.
	c.over = true
	for _, p := range pairs {
		if err := p.ToErr(); err != nil {
			r.env.Log.Debug("queue pair to error state", "rail", r.Name, "error", err)
		}
	}
	c.setup.Unlock()
	c.sayEnd()
	Wait(c.drained, r.env.Config.FlushTimeout)
	local := r.Dev.ClosePairs(pairs)
	if local { // The remaining requests have a result now.
		local = Wait(c.drained, r.env.Config.FlushTimeout)
	}
	if local {
		r.Dev.Forget(pairs...)
	}
	c.settleAll(local, c.peerQuiet())
	if c.lifeline != nil {
		_ = c.lifeline.Close() // Ends the watcher.
	}
}

// peerQuiet waits, within bounds, until the peer cannot store anything that came over the
// connection, and reports whether that is proven. It does not wait where no operation needs the
// proof.
func (c *Conn) peerQuiet() bool {
	r := c.rail
	r.mu.Lock()
	asked, refused := len(c.unproven) > 0, c.refused && len(c.pairs) == 1
	r.mu.Unlock()
	switch {
	case !asked || refused:
		return true
	case c.lifeline == nil:
		// There is no proof. Packets that the device has sent end with the time in which it would
		// have sent them again.
		Wait(r.env.Context.Done(), min(r.env.Config.AckWait(), r.env.Config.ConfirmTimeout))
		return false
	}
	return Wait(c.peerGone, r.env.Config.ConfirmTimeout) && c.quiet
}

// settleAll ends the operations of a connection that is gone. local says that this side's device
// is done with all memory, remote that the peer's is.
func (c *Conn) settleAll(local, remote bool) {
	var done Ended
	r := c.rail
	r.mu.Lock()
	if !local {
		c.abandon()
	}
	for _, o := range c.unproven {
		o.Indeterminate = !local || !remote
		if o.Indeterminate && o.Err == nil {
			o.Err = c.cause
		}
		o.stage = opPosted
		if o.Indeterminate {
			r.load.Add(-int64(o.size()))
			done.add(o)
			continue
		}
		r.settle(o, &done)
	}
	c.unproven = nil
	r.pump(&done)
	r.mu.Unlock()
	done.finish()
}

// abandon gives up waiting for work requests of queue pairs that could not be destroyed.
// The outcome of their Writes is indeterminate. Rail.mu is held.
func (c *Conn) abandon() {
	for _, p := range c.pairs {
		for ; p.tail != p.head; p.tail++ {
			s := p.at(p.tail)
			o := s.op
			*s = request{}
			if o.inFlight--; o.inFlight > 0 {
				continue
			}
			o.Queue.remove(o)
			if o.Err == nil {
				o.Err = c.cause
			}
			if o.stage != opUnproven {
				o.stage = opUnproven
				c.unproven = append(c.unproven, o)
			}
		}
	}
	c.inFlight = 0
}

func (c *Conn) sayEnd() {
	if c.lifeline == nil {
		return
	}
	_ = c.lifeline.SetWriteDeadline(time.Now().Add(c.rail.env.Config.ConfirmTimeout))
	_, _ = c.lifeline.Write([]byte{handshake.EndOfWork}) // Without it the end of the connection says the same.
}

// watch waits for the end of the lifeline, and kills the connection unless this side ended it.
func (c *Conn) watch() {
	var b [1]byte
	_, err := io.ReadFull(c.lifeline, b[:])
	r := c.rail
	why := errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPeer, Op: r.Name}
	switch {
	case err == nil && b[0] == handshake.EndDevice:
		why.Class, why.Err = errs.ClassTransientPath, fmt.Errorf("the peer cannot use its device %s any more", r.Remote.Name)
	case err == nil && b[0] == handshake.EndStopping:
		why.Err = fmt.Errorf("the peer is stopping")
	case err == nil && b[0] == handshake.EndUnproven:
		why.Class, why.Err = errs.ClassTransientPath, fmt.Errorf("the peer could not end its side of the connection")
	case err == nil || err == io.EOF:
		why.Err = fmt.Errorf("the peer's process has ended the connection")
	default:
		why.Class, why.Err = errs.ClassTransientPath, fmt.Errorf("the peer is out of reach: %w", err)
	}
	r.mu.Lock()
	c.quiet = err == nil && b[0] != handshake.EndUnproven || err == io.EOF
	close(c.peerGone)
	if !c.dying {
		r.failed(&why, true)
		c.kill(&why, false)
		var done Ended
		r.pump(&done)
		defer done.finish()
	}
	r.mu.Unlock()
}
