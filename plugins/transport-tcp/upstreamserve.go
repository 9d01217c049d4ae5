package tcp

import (
	"encoding/binary"
	"errors"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"time"
)

// errRejected ends the connection of an upstream peer whose request was refused.
var errRejected = errors.New("request rejected")

// greetUpstream takes over a connection that did not begin with our mark. It reports
// whether the first eight bytes, which are in c.in, belong to a request of upstream; that
// is in c.up then.
func (c *serverConn) greetUpstream(limit time.Time) bool {
	cfg, stats := &c.n.cfg, &c.n.stats
	if !cfg.Upstream || binary.LittleEndian.Uint64(c.in[:]) > upMaxSize {
		stats.foreign.Add(1)
		return false
	}
	if c.pace.readFull(c.in[len(frame.HelloMagic):upHeaderSize], limit) != nil {
		return false
	}
	c.up.decode(c.in[:])
	if c.up.check() == frame.ReasonBadFrame {
		stats.foreign.Add(1)
		return false
	}
	why := c.n.welcomeUpstream(c)
	stats.refuse(why)
	return why == frame.ReasonNone
}

// serveUpstream answers the request in c.up and those after it, until one is refused or
// the connection ends.
func (c *serverConn) serveUpstream() error {
	for {
		if err := c.answerUpstream(&c.up); err != nil {
			return err
		}
		if err := c.await(c.in[:upHeaderSize]); err != nil {
			return err
		}
		c.up.decode(c.in[:])
	}
}

// answerUpstream carries out one request. An error ends the connection.
func (c *serverConn) answerUpstream(h *upHeader) error {
	limit := time.Now().Add(c.n.cfg.OpTimeout)
	r, mem, why := c.acquireAt(h)
	if why != frame.ReasonNone {
		c.n.stats.refuse(why)
		if h.V2 && c.sendUpstream(upStatusRejected, nil, limit) == nil {
			c.linger(lingerTime, lingerBytes)
		}
		return errRejected
	}
	defer r.Release(c)
	limit = c.n.cfg.due(len(mem))
	stats := &c.n.stats
	if h.Op == upRead {
		stats.servedReads.Add(1)
		stats.servedBytesRead.Add(h.Size)
		return c.sendUpstream(upStatusOK, mem, limit)
	}
	if err := c.pace.readFull(mem, limit); err != nil {
		return err
	}
	stats.servedWrites.Add(1)
	stats.servedBytesWritten.Add(h.Size)
	if !h.V2 {
		return nil
	}
	return c.sendUpstream(upStatusOK, nil, limit)
}

// sendUpstream sends the status, where the request has one, and a payload.
func (c *serverConn) sendUpstream(status uint32, payload []byte, limit time.Time) error {
	head := c.in[:0]
	if c.up.V2 {
		head = putStatus(c.in[:], status)
	}
	o := &c.out
	o.bufs = append(o.bufs[:0], head, payload)
	whole := o.bufs // Writing consumes o.bufs; keep the array for the next time.
	err := c.pace.writeAll(&o.bufs, limit)
	clear(whole)
	o.bufs = whole
	return err
}
