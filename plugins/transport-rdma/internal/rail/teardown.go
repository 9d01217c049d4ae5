package rail

import (
	"fmt"
	"io"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

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
	Wait(c.drained, time.Duration(r.env.Config.FlushTimeout))
	local := r.Dev.ClosePairs(pairs)
	if local { // The remaining requests have a result now.
		local = Wait(c.drained, time.Duration(r.env.Config.FlushTimeout))
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
		Wait(r.env.Context.Done(), min(r.env.Config.AckWait(), time.Duration(r.env.Config.ConfirmTimeout)))
		return false
	}
	return Wait(c.peerGone, time.Duration(r.env.Config.ConfirmTimeout)) && c.quiet
}

// settleAll ends the operations of a connection that is gone. local says that this side's device
// is done with all memory, remote that the peer's is.
func (c *Conn) settleAll(local, remote bool) {
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
			r.end(o)
		} else {
			r.settle(o)
		}
	}
	c.unproven = nil
	r.pump()
	r.unlock()
}

// abandon gives up waiting for work requests of queue pairs that could not be destroyed.
// The outcome of their Writes is indeterminate.
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
			o.fail(c.cause)
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
	_ = c.lifeline.SetWriteDeadline(time.Now().Add(time.Duration(c.rail.env.Config.ConfirmTimeout)))
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
	defer r.unlock()
	c.quiet = err == nil && b[0] != handshake.EndUnproven || err == io.EOF
	close(c.peerGone)
	if !c.dying {
		r.failed(&why, true)
		c.kill(&why, false)
		r.pump()
	}
}

// Wait waits for ch, at most for limit, and reports whether it was closed.
func Wait(ch <-chan struct{}, limit time.Duration) bool {
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
