package tcp

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
)

// Cut implements regionkit.Holder: it ends the read or write that holds a region.
func (c *serverConn) Cut() { _ = c.conn.Close() }

// acquire checks a request and gives the memory that it names, which stays in place until the
// region's Release; or the reason why not.
func (c *serverConn) acquire(h *frame.Header) (*region, []byte, frame.Reason) {
	kind := transport.Read
	if h.Type == frame.Write {
		kind = transport.Write
	}
	q := regionkit.Request{Region: transport.RegionID(h.Region), Token: h.Token, Kind: kind, Offset: h.Offset, Length: uint64(h.Length), By: c.subject}
	if c.granted {
		q.Grant = &c.grant
	}
	r, mem, why := c.n.regions.Acquire(q, c)
	return r, mem, frame.ReasonOf(why)
}

func (o *outbox) add(h frame.Header, payload []byte, r *region) {
	o.batch = append(o.batch, h)
	if r != nil {
		o.held = append(o.held, r)
	}
	if len(payload) > 0 {
		o.vec = append(o.vec, payload)
		o.bytes += len(payload)
	}
}

func (o *outbox) full() bool { return len(o.batch) == frame.MaxBatch || o.bytes >= frame.BatchBytes }

// release lets go of the regions and empties the outbox.
func (o *outbox) release(c *serverConn) {
	for _, r := range o.held {
		r.Release(c)
	}
	clear(o.held)
	clear(o.vec)
	o.batch, o.vec, o.held, o.bytes = o.batch[:0], o.vec[:0], o.held[:0], 0
}

// serve answers requests until the connection ends.
func (c *serverConn) serve() error {
	for {
		batch, err := c.next()
		if err != nil {
			return err
		}
		c.granted = false
		for i := range batch {
			if err := c.request(&batch[i]); err != nil {
				return err
			}
			if c.out.full() {
				if err := c.flush(); err != nil {
					return err
				}
			}
		}
		if err := c.flush(); err != nil {
			return err
		}
	}
}

// request carries out one request up to its answer, which it leaves in the outbox. An error ends
// the connection.
func (c *serverConn) request(h *frame.Header) error {
	switch {
	case h.Type == frame.Grant:
		h.Grant(&c.grant)
		c.granted = true
		return nil
	case h.Type != frame.Read && h.Type != frame.Write:
		return fmt.Errorf("%w: type %d is no request", frame.ErrFrame, h.Type)
	case h.Length > frame.MaxSlice:
		return errTooLong
	}
	r, mem, why := c.acquire(h)
	if h.Type == frame.Read {
		if why != frame.ReasonNone {
			c.refuse(why, h)
			return nil
		}
		answer := frame.Header{Type: frame.Data, ID: h.ID, Length: h.Length}
		if c.checks {
			answer.Sum = frame.Checksum(mem)
		}
		c.out.add(answer, mem, r)
		c.n.stats.Served(transport.Read, len(mem))
		return nil
	}
	limit := c.n.cfg.due(int(h.Length))
	if why != frame.ReasonNone {
		c.refuse(why, h)
		return c.discard(int(h.Length), limit)
	}
	defer r.ReleaseWrite(c)
	if err := c.pace.ReadFull(mem, limit); err != nil {
		return err
	}
	if c.checks && frame.Checksum(mem) != h.Sum {
		c.refuse(frame.ReasonChecksum, h)
		return nil
	}
	c.out.add(frame.Header{Type: frame.Done, ID: h.ID}, nil, nil)
	c.n.stats.Served(transport.Write, len(mem))
	return nil
}

func (c *serverConn) refuse(why frame.Reason, h *frame.Header) {
	c.n.stats.refuse(why)
	if why >= frame.ReasonGrantMissing {
		c.n.trust.tellGrant(why, c.conn.RemoteAddr(), c.name)
	}
	c.out.add(why.Answer(frame.Error, h.ID), nil, nil)
}

// flush sends the answers.
func (c *serverConn) flush() error {
	o := &c.out
	if len(o.batch) == 0 {
		return nil
	}
	defer o.release(c)
	raw := frame.PutBatch(o.raw[:], o.batch)
	o.bufs = append(o.bufs[:0], raw)
	o.bufs = append(o.bufs, o.vec...)
	whole := o.bufs // Writing consumes o.bufs; keep the array for the next time.
	err := c.pace.WriteAll(&o.bufs, c.n.cfg.due(o.bytes))
	clear(whole)
	o.bufs = whole
	return err
}

// discard reads n bytes and throws them away.
func (c *serverConn) discard(n int, limit time.Time) error {
	buf := c.n.scratch.Get().(*scratch)
	defer c.n.scratch.Put(buf)
	for n > 0 {
		b := buf[:min(n, len(buf))]
		if err := c.pace.ReadFull(b, limit); err != nil {
			return err
		}
		n -= len(b)
		c.n.stats.discarded.Add(uint64(len(b)))
	}
	return nil
}
